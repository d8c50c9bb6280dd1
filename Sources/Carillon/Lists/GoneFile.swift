internal import Foundation
internal import PushEngine
internal import PushTransport
internal import Synchronization

/// The tokens that nothing should be sent to any more, unless they were registered again after the
/// time given: as `carillon feedback` lists them. Appended to, so that one file serves all
/// campaigns; a row that stands twice says nothing wrong.
final class GoneFile: Sendable {
  static let flag = "--gone: "

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
    output = try FeedbackFile(path: path, json: false, flag: "--gone")
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
    let handler: (@Sendable (String) -> Void)? = state.withLock { state in
      state.problem = state.problem ?? problem
      return exchange(&state.failureHandler, with: nil)
    }
    handler?("\(Self.flag)\(path) cannot be written: \(problem)")
  }

  func onFailure(_ handler: @escaping @Sendable (String) -> Void) { state.withLock { $0.failureHandler = handler } }

  /// Returns one sentence if the file is not complete.
  func finish() -> String? { state.withLock { $0.problem }.map { "\(Self.flag)\(path) is not complete: \($0)" } }
}
