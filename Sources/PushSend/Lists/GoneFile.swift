internal import Carillon
internal import Foundation
internal import PushEngine
internal import PushTransport
internal import Synchronization

/// The list of gone devices: tokens to send nothing to, unless they were registered again after
/// the time given. It has the format of the feedback service's list. Rows are appended, so that one
/// file serves all campaigns; a repeated row does no harm.
final class GoneFile: Sendable {
  let path: String
  private let output: FeedbackFile
  /// Rows were written since the last sync.
  private let isDirty = Atomic(false)
  let failure: ListFailure

  /// Opens the file, or makes it, with its header.
  init(path: String) throws(CarillonError) {
    self.path = path
    failure = ListFailure(title: "the list of gone devices \(path)")
    output = try FeedbackFile(path: path, json: false, title: failure.title)
  }

  /// Every token in it; nil if it cannot be read, as a pipe.
  var tokens: Set<String>? {
    guard let text = try? String(contentsOfFile: path, encoding: .utf8) else { return nil }
    return Set(text.split(separator: "\n").dropFirst().compactMap { $0.split(separator: ",").last.map(String.init) })
  }

  /// - Parameter since: in milliseconds, as the service says it; nil: now.
  func append(token: String, since: UInt64?) {
    let seconds = since.map { $0 / 1000 } ?? UInt64(NIOLoop.wallClock)
    // Every row is a write of its own: it survives the process, and has to before the journal says
    // that its notification is settled.
    let problem = output.write("\(seconds),\(token)\n")
    isDirty.store(true, ordering: .releasing)
    if let problem { fail(problem) }
  }

  func sync() throws(UnsyncedList) {
    guard isDirty.exchange(false, ordering: .acquiringAndReleasing) else { return }
    let code = output.sync()
    guard code != 0 else { return }
    fail(unsafe String(cString: strerror(code)))
    throw UnsyncedList(path: path, code: code)
  }

  private func fail(_ problem: String) {
    failure.note(problem)
    failure.report()
  }

  /// Returns one sentence if the file is not complete.
  func finish() -> String? { failure.incompleteness }
}
