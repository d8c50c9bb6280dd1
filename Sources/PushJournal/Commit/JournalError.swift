/// Why the journal could not do what was asked.
package enum JournalError: Error, Hashable, Sendable, CustomStringConvertible {
  /// Another living process owns the directory.
  case inUse(path: String, pid: Int32?)
  /// The directory belongs to this other user, who could read and change what is written there.
  case notOurs(path: String, owner: UInt32)
  /// Opening, reading or recovering met an error of the operating system.
  case file(JournalFileError)
  /// Recovery found something that a crash does not explain.
  case damaged(JournalDamage)
  /// No room until the disk has caught up: wait for ``Journal/whenRoom(_:)`` and try again.
  case full
  case recordTooLarge(byteCount: Int, limit: Int)
  /// An earlier write failed. Nothing is taken any more; what was durable before stays.
  case failed(JournalFileError)
  case closed

  package var description: String {
    switch self {
    case .inUse(let path, let pid?): "the journal \(path) is in use by process \(pid)"
    case .inUse(let path, nil): "the journal \(path) is in use by another process"
    case .notOurs(let path, let owner): "the journal \(path) belongs to another user (\(owner)): name a folder of your own"
    case .file(let error): "\(error)"
    case .damaged(let damage): "the journal is damaged: \(damage)"
    case .full: "the journal waits for the disk"
    case .recordTooLarge(let byteCount, let limit): "a journal record of \(byteCount) bytes; the most is \(limit)"
    case .failed(let error): "the journal has stopped: \(error)"
    case .closed: "the journal is closed"
    }
  }
}

extension JournalError {
  /// Runs `body`; an error of the operating system becomes ``file(_:)``.
  static func wrapping<Value>(_ body: () throws(JournalFileError) -> Value) throws(JournalError) -> Value {
    do { return try body() } catch { throw .file(error) }
  }
}
