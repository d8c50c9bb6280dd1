internal import Glibc
internal import PushTransport
internal import Synchronization

/// The file that holds the record, one JSON object a line.
///
/// Connections hand over whole lines in blocks, and each block is written before the call returns.
/// So the number of connections bounds the memory, and a slow disk slows the clients down.
package final class RecordFile: Sendable {
  private struct State {
    /// -1 when closed.
    var descriptor: Int32
    var problem: String?
  }

  private let state: Mutex<State>
  private let path: String

  /// Creates the file, or empties an existing one.
  ///
  /// - Throws: ``RecordFileError``, a sentence.
  package init(path: String) throws(RecordFileError) {
    let descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else {
      throw RecordFileError(description: "The record \(path) cannot be written: \(SystemCall.reason(errno)).")
    }
    state = Mutex(State(descriptor: descriptor))
    self.path = path
  }

  deinit { _ = finish() }

  /// Writes lines. After the first failure nothing more is written, and ``finish()`` reports it.
  func append(_ lines: borrowing [UInt8]) {
    state.withLock { state in
      guard state.descriptor >= 0, state.problem == nil else { return }
      let code = SystemCall.write(lines, to: state.descriptor)
      if code != 0 { state.problem = "The record \(path) is not complete: \(SystemCall.reason(code))." }
    }
  }

  /// Closes the file. Returns why the record is not complete, or nil when it is complete.
  func finish() -> String? {
    state.withLock { state in
      if state.descriptor >= 0, close(state.descriptor) != 0, state.problem == nil {
        state.problem = "The record \(path) is not complete: \(SystemCall.reason(errno))."
      }
      state.descriptor = -1
      return state.problem
    }
  }
}

/// Why a record could not be created, as a sentence.
package struct RecordFileError: Error, Hashable, Sendable, CustomStringConvertible {
  package let description: String
}
