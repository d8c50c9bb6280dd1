internal import Foundation
internal import PushEngine
internal import PushWire
internal import Synchronization

/// The CSV file of everything that was not accepted: `line,token,outcome,reason`, and for a campaign file also `app` and `tokens`, as lines alone
/// would not say of which file.
final class OutcomesFile: Sendable {
  private struct State {
    var pending: [UInt8] = []
    var problem: String?
  }

  /// 256 KiB wait in memory at most.
  private static let bufferByteCount = 256 * 1024

  private let path: String
  private let stream: StandardStream
  private let descriptor: Int32
  private let namesSource: Bool
  private let state = Mutex(State())

  /// Creates the file, or empties it.
  ///
  /// - Parameter rows: what it holds from the beginning, each with its line end: from ``OutcomesHistory``.
  init(path: String, namesSource: Bool, rows: [String] = []) throws {
    let opened = unsafe open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
    guard opened >= 0 else { throw CommandFailure.usage("--outcomes: \(path) cannot be written: \(unsafe String(cString: strerror(errno)))") }
    self.path = path
    self.namesSource = namesSource
    descriptor = opened
    stream = StandardStream(opened)
    append("line,token,outcome,reason\(namesSource ? ",app,tokens" : "")\n")
    for row in rows { append(row) }
  }

  deinit { close(descriptor) }

  /// What one campaign tells of.
  func listener(app: String, tokens: String) -> any OutcomeListener {
    Listener(file: self, suffix: namesSource ? ",\(Self.field(app)),\(Self.field(tokens))" : "")
  }

  /// Writes what waits. Returns one sentence if the file is not complete.
  func finish() -> String? {
    state.withLock { state in
      flush(&state)
      return state.problem.map { "--outcomes: \(path) is not complete: \($0)" }
    }
  }

  fileprivate func append(_ row: String) {
    state.withLock { state in
      state.pending.append(contentsOf: row.utf8)
      if state.pending.count >= Self.bufferByteCount { flush(&state) }
    }
  }

  private func flush(_ state: inout State) {
    if state.problem == nil { state.problem = stream.write(state.pending) }
    state.pending.removeAll(keepingCapacity: true)
  }

  /// RFC 4180. Spreadsheets run what begins with = + - @ as a formula, and a malformed line may say anything: such a field gets an apostrophe.
  static func field(_ text: String) -> String {
    let harmless = text.first.map { "=+-@\t\r".contains($0) } == true ? "'" + text : text
    guard harmless.utf8.contains(where: { ",\"\r\n".utf8.contains($0) }) else { return harmless }
    return "\"" + harmless.replacing("\"", with: "\"\"") + "\""
  }

  private struct Listener: OutcomeListener {
    let file: OutcomesFile
    let suffix: String

    func flush() { _ = file.finish() }

    func notAccepted(line: UInt64, token: String, outcome: Outcome) {
      file.append("\(line),\(OutcomesFile.field(token)),\(OutcomesFile.name(outcome)),\(OutcomesFile.field(OutcomesFile.reason(outcome)))\(suffix)\n")
    }
  }

  private static func name(_ outcome: Outcome) -> String {
    switch outcome {
    case .accepted: "accepted"
    case .rejected: "rejected"
    case .suppressed: "suppressed"
    case .expired: "expired"
    case .held: "held"
    case .cancelled: "cancelled"
    case .unknown: "unknown"
    }
  }

  private static func reason(_ outcome: Outcome) -> String {
    if case .rejected(let reason) = outcome { "\(reason)" } else { "" }
  }
}
