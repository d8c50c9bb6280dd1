internal import Carillon
internal import Foundation
internal import PushEngine
internal import PushWire

/// A device that the service has called gone.
struct GoneDevice: Hashable, Sendable {
  var token: String
  /// Seconds since 1970; nil: not known.
  var since: UInt64?
}

extension GoneFile {
  /// Finds out which devices of resumed campaigns it lacks, and appends those that the list of
  /// outcomes or the journal still has.
  ///
  /// - Parameters:
  ///   - listed: what the list of outcomes says.
  ///   - begunAt: what takes the place of a time that is not known: when the campaign began. A
  ///     device that was registered since then is not called gone.
  ///   - directory: the journal's.
  /// - Returns: a notice, as a sentence; nil if nothing is missing in the file.
  func restore(
    _ sources: [OutcomesRestoration.Source], listed: [GoneDevice], begunAt: UInt64, directory: String
  ) throws -> String? {
    let expected = sources.map(\.account.goneCount).reduce(0, +)
    guard expected > 0, let present = tokens else { return nil }
    var known = listed
    if known.count < expected {
      for source in sources where source.account.goneCount > 0 {
        known += try source.settledInJournal(directory).filter(\.outcome.isGone).map { GoneDevice(token: $0.token) }
      }
    }
    var seen = present
    let lacking = known.filter { seen.insert($0.token).inserted }
    // A row of the list may say any time.
    for device in lacking {
      append(token: device.token, since: min(device.since ?? begunAt, UInt64(UInt32.max)) * 1000)
    }
    // A failure is reported when the file is finished.
    if !lacking.isEmpty { try? sync() }
    // Other campaigns have rows there too, so this is the least that is missing.
    let lost = max(0, expected - seen.count)
    guard !lacking.isEmpty || lost > 0 else { return nil }
    let restored = lacking.isEmpty ? "" : "; \(lacking.count) \(lacking.count == 1 ? "is" : "are") written again"
    let unknown = lost == 0 ? "" : "; \(lost) cannot be, as the journal no longer holds their tokens"
    return "\(failure.title) lacked \(lacking.count + lost) of the devices that the service has called gone"
      + restored + unknown
  }
}

extension Account {
  fileprivate var goneCount: Int { rejected.filter { Outcome.rejected($0.key).isGone }.values.reduce(0, +) }
}

extension Outcome {
  /// 410: the device no longer has the app.
  var isGone: Bool {
    guard case .rejected(.provider(let refusal)) = self else { return false }
    return refusal.status == 410
  }
}
