internal import Carillon
internal import PushEngine
internal import PushSend
internal import PushStore
internal import Synchronization

/// Makes durable, before the journal's next commit, what campaigns have written: their lists of
/// outcomes and their final accounts.
package final class CampaignRecorder: Sendable {
  private struct State {
    var lists: [String: OutcomesFile] = [:]
    var ended: [EndedCampaignPart] = []
    var endedSegments: [SegmentProgress] = []
  }

  private let store: any Store
  private let state = Mutex(State())

  init(store: any Store) { self.store = store }

  /// - Parameter name: of the part.
  func opened(_ list: OutcomesFile, of name: String) { state.withLock { $0.lists[name] = list } }

  func ended(_ part: EndedCampaignPart) { state.withLock { $0.ended.append(part) } }

  /// Everything of a segment has its outcome.
  func ended(_ segment: SegmentProgress) { state.withLock { $0.endedSegments.append(segment) } }

  /// The list of a part that has ended needs no more syncing.
  func close(_ name: String) throws(UnsyncedList) {
    guard let list = state.withLock({ $0.lists.removeValue(forKey: name) }) else { return }
    _ = list.finish()
    try list.sync()
  }

  /// Those who read the list of a part see everything up to now.
  package func flush(_ name: String) { _ = state.withLock { $0.lists[name] }?.finish() }

  /// They are files of this machine.
  func syncLists() throws(UnsyncedList) {
    for list in state.withLock({ Array($0.lists.values) }) { try list.sync() }
  }

  /// What has ended.
  struct Ends {
    fileprivate var parts: [EndedCampaignPart]
    fileprivate var segments: [SegmentProgress]
  }

  /// To be written when all their outcomes are.
  func takeEnds() -> Ends {
    state.withLock { state in
      Ends(parts: exchange(&state.ended, with: []), segments: exchange(&state.endedSegments, with: []))
    }
  }

  func putBack(_ ends: Ends) {
    state.withLock { state in
      state.ended.insert(contentsOf: ends.parts, at: 0)
      state.endedSegments.insert(contentsOf: ends.segments, at: 0)
    }
  }

  func write(_ ends: Ends) throws(UnsyncedList) {
    do throws(StoreError) {
      if !ends.parts.isEmpty { try store.end(ends.parts) }
      try end(ends.segments)
    } catch { throw UnsyncedList(error) }
  }

  private func end(_ segments: [SegmentProgress]) throws(StoreError) {
    guard let ledger = store.ledger, let owner = segments.first?.owner else { return }
    let last = segments.compactMap { segment in segment.finalReport().map { (segment, $0) } }
    let written = try ledger.report(last.map(\.1.report), by: owner)
    for (segment, report) in last {
      if written[segment.id] == nil { segment.refused() } else { segment.acknowledge(report, after: .zero) }
    }
  }
}
