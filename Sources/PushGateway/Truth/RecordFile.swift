internal import Glibc
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
      throw RecordFileError(description: "The record \(path) cannot be written: \(Self.reason(errno)).")
    }
    state = Mutex(State(descriptor: descriptor))
    self.path = path
  }

  deinit { _ = finish() }

  /// Writes lines. After the first failure nothing more is written, and ``finish()`` reports it.
  func append(_ lines: borrowing [UInt8]) {
    state.withLock { state in
      guard state.descriptor >= 0, state.problem == nil else { return }
      state.problem = unsafe lines.withUnsafeBytes { bytes in
        var rest = unsafe bytes[...]
        while unsafe !rest.isEmpty {
          let written = unsafe write(state.descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
          if written < 0 {
            if errno == EINTR { continue }
            return "The record \(path) is not complete: \(Self.reason(errno))."
          }
          unsafe rest = rest.dropFirst(written)
        }
        return nil
      }
    }
  }

  /// Closes the file. Returns why the record is not complete, or nil when it is complete.
  func finish() -> String? {
    state.withLock { state in
      if state.descriptor >= 0, close(state.descriptor) != 0, state.problem == nil {
        state.problem = "The record \(path) is not complete: \(Self.reason(errno))."
      }
      state.descriptor = -1
      return state.problem
    }
  }

  private static func reason(_ code: Int32) -> String {
    guard let text = unsafe strerror(code) else { return "error \(code)" }
    return unsafe String(cString: text)
  }
}

/// Why a record could not be created, as a sentence.
package struct RecordFileError: Error, Hashable, Sendable, CustomStringConvertible {
  package let description: String
}
