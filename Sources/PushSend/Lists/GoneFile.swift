internal import Carillon
internal import Foundation
internal import PushEngine
internal import PushTransport
internal import Synchronization

/// The list of gone devices: tokens to send nothing to, unless they were registered again after
/// the time given. It has the format of the feedback service's list. Rows are appended, so that one
/// file serves all campaigns; a repeated row does no harm.
final class GoneFile: Sendable {
  private struct State {
    var problem: String?
    /// Rows were written since the last sync.
    var isDirty = false
    var failureHandler: (@Sendable (String) -> Void)?
  }

  let path: String
  private let output: FeedbackFile
  private let state = Mutex(State())

  /// Opens the file, or makes it, with its header.
  init(path: String) throws(CarillonError) {
    self.path = path
    output = try FeedbackFile(path: path, json: false, title: Self.title(path))
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
    state.withLock { $0.isDirty = true }
    if let problem { fail(problem) }
  }

  /// Makes durable what was written since the last call.
  func sync() throws(UnsyncedList) {
    guard state.withLock({ exchange(&$0.isDirty, with: false) }) else { return }
    let code = output.sync()
    guard code != 0 else { return }
    fail(unsafe String(cString: strerror(code)))
    throw UnsyncedList(path: path, code: code)
  }

  private func fail(_ problem: String) {
    let (first, handler): (String, (@Sendable (String) -> Void)?) = state.withLock { state in
      let first = state.problem ?? problem
      state.problem = first
      return (first, exchange(&state.failureHandler, with: nil))
    }
    handler?(Self.failure(path, first))
  }

  /// How sentences about the file begin.
  private static func title(_ path: String) -> String { "the list of gone devices \(path)" }

  private static func failure(_ path: String, _ problem: String) -> String {
    "\(title(path)) cannot be written: \(problem)"
  }

  /// The sentence for ``onFailure(_:)``; nil if nothing has failed.
  var failure: String? { state.withLock { $0.problem }.map { Self.failure(path, $0) } }

  func onFailure(_ handler: @escaping @Sendable (String) -> Void) { state.withLock { $0.failureHandler = handler } }

  /// Returns one sentence if the file is not complete.
  func finish() -> String? {
    state.withLock { $0.problem }.map { "\(Self.title(path)) is not complete: \($0)" }
  }

  /// That it lacks devices, in a sentence.
  func lackSentence(_ count: Int) -> String {
    "\(Self.title(path)) lacked \(count) of the devices that the service has called gone"
  }
}
