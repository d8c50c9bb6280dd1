/// One file of a journal's directory. Tests replace it to lose, tear and fail writes.
///
/// A file is written by one thread, and only at its end.
package protocol JournalFile: AnyObject, Sendable {
  /// The present length in bytes.
  func byteCount() throws(JournalFileError) -> Int
  /// Writes all of `bytes` at the end. After an error, any part of them may be in the file.
  func append(_ bytes: UnsafeRawBufferPointer) throws(JournalFileError)
  /// Returns when everything written so far would survive a loss of power. After an error, nothing
  /// is known about what was written since the last success, and a later success proves nothing.
  func sync() throws(JournalFileError)
  /// Reads from `offset` until `buffer` is full or the file ends. Returns the number of bytes read.
  func read(at offset: Int, into buffer: UnsafeMutableRawBufferPointer) throws(JournalFileError) -> Int
  /// Cuts the file to its first `byteCount` bytes.
  func truncate(to byteCount: Int) throws(JournalFileError)
  func close()
}

/// The directory of a journal. Tests replace it as they do ``JournalFile``.
package protocol JournalFiles: Sendable {
  /// The directory's name in messages.
  var path: String { get }
  /// Makes this process the owner until the lock is released or the process ends.
  func takeLock() throws(JournalFileError) -> JournalLockAttempt
  /// The names of all files, in any order.
  func list() throws(JournalFileError) -> [String]
  /// Creates a file that did not exist. It survives a loss of power only after ``syncDirectory()``.
  func create(_ name: String) throws(JournalFileError) -> any JournalFile
  /// Opens a file that exists; `writable` only to truncate it.
  func open(_ name: String, writable: Bool) throws(JournalFileError) -> any JournalFile
  func delete(_ name: String) throws(JournalFileError)
  /// Returns when all creations and deletions so far would survive a loss of power.
  func syncDirectory() throws(JournalFileError)
}

/// Ownership of a journal's directory.
package protocol JournalLock: AnyObject, Sendable { func release() }

package enum JournalLockAttempt: Sendable {
  case taken(any JournalLock)
  /// A living process has the lock; its id, or nil if it has not been written yet.
  case held(by: Int32?)
}

/// An error of the operating system.
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
    (self.operation, self.path, self.code) = (operation, path, code)
  }

  package var description: String { "cannot \(operation.rawValue) \(path): \(ErrorCode.message(code))" }
}
