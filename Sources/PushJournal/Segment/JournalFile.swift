/// One file of a journal's directory: the seam to the disk, so that tests can lose, tear and refuse writes.
///
/// A file is written by one thread, at its end only.
package protocol JournalFile: AnyObject, Sendable {
  /// The present length.
  func byteCount() throws(JournalFileError) -> Int
  /// Writes all of `bytes` at the end. After an error any part of them may be in the file.
  func append(_ bytes: UnsafeRawBufferPointer) throws(JournalFileError)
  /// Returns once everything written so far would survive a loss of power. After an error nothing is known of what was written since the last success,
  /// and trying again proves nothing.
  func sync() throws(JournalFileError)
  /// Reads from `offset` until `buffer` is full or the file ends. Returns the number of bytes read.
  func read(at offset: Int, into buffer: UnsafeMutableRawBufferPointer) throws(JournalFileError) -> Int
  /// Cuts the file to its first `byteCount` bytes.
  func truncate(to byteCount: Int) throws(JournalFileError)
  func close()
}

/// The directory of a journal: the other half of the seam.
package protocol JournalFiles: Sendable {
  /// What a person knows the directory by, for messages.
  var path: String { get }
  /// Makes this process the owner until the lock is released, or the process ends in any way.
  func takeLock() throws(JournalFileError) -> JournalLockAttempt
  /// The names of all files, in no particular order.
  func list() throws(JournalFileError) -> [String]
  /// Makes a file that was not there. It is sure to be found after a loss of power only when the directory has been synced.
  func create(_ name: String) throws(JournalFileError) -> any JournalFile
  /// Opens a file that is there; `writable` only to cut it.
  func open(_ name: String, writable: Bool) throws(JournalFileError) -> any JournalFile
  func delete(_ name: String) throws(JournalFileError)
  /// Returns once files created and deleted so far would stay so after a loss of power.
  func syncDirectory() throws(JournalFileError)
}

/// Ownership of a journal's directory.
package protocol JournalLock: AnyObject, Sendable {
  func release()
}

package enum JournalLockAttempt: Sendable {
  case taken(any JournalLock)
  /// A living process has it; its id, unless it has not been written yet.
  case held(by: Int32?)
}

/// What the operating system refused.
package struct JournalFileError: Error, Hashable, Sendable, CustomStringConvertible {
  package enum Operation: String, Sendable {
    case makeDirectory = "make the directory"
    case lock = "lock"
    case list = "list"
    case create = "create"
    case open = "open"
    case write = "write"
    case sync = "sync"
    case read = "read"
    case truncate = "cut"
    case delete = "delete"
    case syncDirectory = "sync the directory"
    case startThread = "start the thread of"
  }

  package let operation: Operation
  package let path: String
  /// The `errno` of the call.
  package let code: Int32

  package init(_ operation: Operation, path: String, code: Int32) {
    self.operation = operation
    self.path = path
    self.code = code
  }

  package var description: String { "cannot \(operation.rawValue) \(path): \(ErrorCode.message(code))" }
}
