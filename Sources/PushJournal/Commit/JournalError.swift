/// Why the journal could not do what was requested.
package enum JournalError: Error, Hashable, Sendable, CustomStringConvertible {
  /// Another living process owns the directory.
  case inUse(path: String, pid: Int32?)
  /// Another user owns the directory, and could read and change its files.
  case notOurs(path: String, owner: UInt32)
  /// The operating system reported an error while the journal was opened or recovered.
  case file(JournalFileError)
  /// Recovery found damage that a crash does not explain.
  case damaged(JournalDamage)
  /// A segment is in another version of the format. It is sound, and nothing of it is skipped.
  case version(segment: String, UInt16)
  /// All blocks wait for the disk. Wait with ``Journal/whenRoom(_:)`` and try again.
  case full
  case recordTooLarge(byteCount: Int, limit: Int)
  /// An earlier write failed. Nothing more is accepted; durable records stay.
  case failed(JournalFileError)
  case closed

  package var description: String {
    switch self {
    case .inUse(let path, let pid?): "the journal \(path) is in use by process \(pid)"
    case .inUse(let path, nil): "the journal \(path) is in use by another process"
    case .notOurs(let path, let owner):
      "the journal \(path) belongs to another user (\(owner)): name a folder of your own"
    case .file(let error): "\(error)"
    case .damaged(let damage): "the journal is damaged: \(damage)"
    case .version(let segment, let version):
      "\(segment) has version \(version) of the journal's format, and this program reads version "
        + "\(SegmentHeader.version) only: finish its campaign with the program that wrote it, or use another directory"
    case .full: "the journal is full: the disk is too slow"
    case .recordTooLarge(let byteCount, let limit):
      "a journal record of \(byteCount) bytes is too large: the limit is \(limit)"
    case .failed(let error): "the journal has stopped: \(error)"
    case .closed: "the journal is closed"
    }
  }
}

extension JournalError {
  /// Runs `body`. An error of the operating system becomes ``file(_:)``.
  static func wrapping<Value>(_ body: () throws(JournalFileError) -> Value) throws(JournalError) -> Value {
    do { return try body() } catch { throw .file(error) }
  }
}
