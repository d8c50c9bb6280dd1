internal import Carillon
internal import Foundation
package import PushEngine
package import PushWire
internal import Synchronization

/// What the rows of an ``OutcomesFile`` say.
package struct OutcomesColumns: Hashable, Sendable {
  /// `app` and `tokens`, for a campaign file, as lines alone would not say of which file.
  package var namesSource = false
  /// `gone-since`, where HTTP/2 is spoken: of a device that no longer has the app, when the service
  /// last found that, in seconds since 1970.
  package var namesTime = false

  package init(namesSource: Bool = false, namesTime: Bool = false) {
    (self.namesSource, self.namesTime) = (namesSource, namesTime)
  }

  package var names: [String] {
    ["line", "token", "outcome", "reason"] + (namesTime ? ["gone-since"] : []) + (namesSource ? ["app", "tokens"] : [])
  }
}

/// The CSV file of everything that was not accepted.
package final class OutcomesFile: Sendable {
  private struct State {
    var pending: [UInt8] = []
    /// Rows were written since the last sync.
    var isDirty = false
  }

  /// 256 KiB wait in memory at most.
  private static let bufferByteCount = 256 * 1024

  private let path: String
  private let descriptor: Int32
  private let columns: OutcomesColumns
  private let state = Mutex(State())
  let failure: ListFailure

  /// Creates the file, or empties it.
  package init(path: String, columns: OutcomesColumns) throws {
    failure = ListFailure(title: Self.title(path))
    do throws(OutputFile.Problem) { descriptor = try OutputFile.open(path, flags: O_TRUNC) } catch {
      throw CarillonError(.list, failure.sentence(error.text))
    }
    (self.path, self.columns) = (path, columns)
    append(Self.header(columns))
    // A process that is killed before the first row leaves a list without rows, not an empty file.
    _ = finish()
  }

  /// Continues an existing file, of whose rows only some are still right.
  ///
  /// Replaced as a whole: a process killed here leaves either the old file or the new one.
  ///
  /// - Parameter rows: what it begins with, each with its line end: from ``OutcomesHistory``.
  package init(replacing path: String, columns: OutcomesColumns, rows: [String]) throws {
    failure = ListFailure(title: Self.title(path))
    var status = stat()
    let target: String
    let replacement: String?
    do throws(OutputFile.Problem) {
      target = try OutputFile.resolve(path)
      if unsafe lstat(target, &status) == 0, status.st_mode & S_IFMT == S_IFREG {
        let made = try OutputFile.makeReplacement(of: target)
        (descriptor, replacement) = (made.descriptor, made.path)
      } else {
        (descriptor, replacement) = (try OutputFile.open(target, flags: O_TRUNC), nil)
      }
    } catch {
      throw CarillonError(.list, failure.sentence(error.text))
    }
    (self.path, self.columns) = (path, columns)
    func check(_ problem: String?) throws {
      guard let problem else { return }
      if let replacement { unsafe unlink(replacement) }
      throw CarillonError(.list, failure.sentence(problem))
    }
    func check(_ result: Int32) throws { try check(result == 0 ? nil : unsafe String(cString: strerror(errno))) }
    try check(OutputFile.write(Array((Self.header(columns) + rows.joined()).utf8), to: descriptor))
    guard let replacement else { return }
    // Keeps the file's permissions.
    try check(fchmod(descriptor, status.st_mode & 0o777))
    try check(fsync(descriptor))
    try check(unsafe rename(replacement, target))
    OutputFile.syncDirectory(of: target)
  }

  private static func title(_ path: String) -> String { "the list of outcomes \(path)" }

  private static func header(_ columns: OutcomesColumns) -> String { columns.names.joined(separator: ",") + "\n" }

  deinit { close(descriptor) }

  /// The listener for one campaign.
  ///
  /// - Parameter channel: takes the place of tokens, which a broadcast does not have.
  package func listener(app: String, tokens: String, channel: String? = nil) -> any OutcomeListener {
    Listener(
      file: self, channel: channel, namesTime: columns.namesTime,
      suffix: columns.namesSource ? ",\(Self.field(app)),\(Self.field(tokens))" : "")
  }

  /// Writes what waits. Returns one sentence if the file is not complete.
  package func finish() -> String? {
    change { flush(&$0) }
    return failure.incompleteness
  }

  /// Makes durable what was written since the last call.
  package func sync() throws(UnsyncedList) {
    guard state.withLock({ exchange(&$0.isDirty, with: false) }) else { return }
    let code = OutputFile.sync(descriptor)
    guard code != 0 else { return }
    failure.note(unsafe String(cString: strerror(code)))
    failure.report()
    throw UnsyncedList(path: path, code: code)
  }

  fileprivate func append(_ row: String) {
    change { state in
      state.pending.append(contentsOf: row.utf8)
      if state.pending.count >= Self.bufferByteCount { flush(&state) }
    }
  }

  private func change(_ body: (inout State) -> Void) {
    state.withLock { body(&$0) }
    failure.report()
  }

  private func flush(_ state: inout State) {
    guard !state.pending.isEmpty else { return }
    if failure.problem == nil, let problem = OutputFile.write(state.pending, to: descriptor) { failure.note(problem) }
    state.isDirty = true
    state.pending.removeAll(keepingCapacity: true)
  }

  /// A row without its line end, and without its source.
  package static func row(
    line: UInt64, token: String, outcome: Outcome, goneSince: UInt64?, namesTime: Bool
  ) -> String {
    let time = namesTime ? "," + (goneSince.map { String($0 / 1000) } ?? "") : ""
    return "\(line),\(field(token)),\(outcome.kind.rawValue),"
      + "\(field(outcome.kind == .rejected ? outcome.detail : ""))\(time)"
  }

  /// RFC 4180. Spreadsheets run what begins with = + - @ as a formula, and a malformed line may say
  /// anything: such a field gets an apostrophe.
  package static func field(_ text: String) -> String {
    let harmless = harmless(text)
    guard harmless.utf8.contains(where: { ",\"\r\n".utf8.contains($0) }) else { return harmless }
    return "\"" + harmless.replacing("\"", with: "\"\"") + "\""
  }

  private static func harmless(_ text: String) -> String {
    text.first.map { "=+-@\t\r".contains($0) } == true ? "'" + text : text
  }

  /// Whether `text` is what a field was made of, as it is read back.
  static func isField(_ read: String, _ text: String) -> Bool { read == harmless(text) }

  private struct Listener: OutcomeListener {
    let file: OutcomesFile
    let channel: String?
    let namesTime: Bool
    let suffix: String

    func flush() { _ = file.finish() }

    func notAccepted(line: UInt64, token: String, outcome: Outcome, goneSince: UInt64?, isDoubted: Bool) {
      let row = OutcomesFile.row(
        line: line, token: channel ?? token, outcome: outcome, goneSince: goneSince, namesTime: namesTime)
      file.append("\(row)\(suffix)\n")
    }
  }
}

/// Why a list can no longer be written. The first reason counts, and is reported once.
final class ListFailure: Sendable {
  private struct State {
    var problem: String?
    var handler: (@Sendable (String) -> Void)?
  }

  /// How sentences about the list begin.
  let title: String
  private let state = Mutex(State())

  init(title: String) { self.title = title }

  /// The sentence for the handler; nil if nothing has failed.
  var sentence: String? { problem.map(sentence) }
  func sentence(_ problem: String) -> String { "\(title) cannot be written: \(problem)" }

  /// That the list is not complete, in a sentence; nil if it is.
  var incompleteness: String? { problem.map { "\(title) is not complete: \($0)" } }

  var problem: String? { state.withLock { $0.problem } }

  /// Notes a failure, for the next ``report()``.
  func note(_ problem: String) { state.withLock { $0.problem = $0.problem ?? problem } }

  /// Calls `handler` once with a sentence when the list can no longer be written, from any thread.
  func onFailure(_ handler: @escaping @Sendable (String) -> Void) { state.withLock { $0.handler = handler } }

  /// Calls the handler if there is a failure. Not to be called under a lock.
  func report() {
    let (problem, handler) = state.withLock { state in
      (state.problem, state.problem == nil ? nil : exchange(&state.handler, with: nil))
    }
    if let problem { handler?(sentence(problem)) }
  }
}
