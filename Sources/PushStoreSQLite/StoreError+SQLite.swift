internal import GRDB
internal import PushStore

extension StoreError {
  init(_ error: any Error, path: String) {
    if let error = error as? StoreError {
      self = error
      return
    }
    let kind: Kind
    switch (error as? DatabaseError)?.resultCode {
    case .SQLITE_FULL?: kind = .full
    // A quota and a limit of file sizes are no full disk for SQLite.
    case .SQLITE_IOERR? where Self.isAboutWriting(error): kind = .unwritable
    case .SQLITE_NOTADB?, .SQLITE_CORRUPT?: kind = .unusable
    // Nothing was written.
    case .SQLITE_BUSY?, .SQLITE_LOCKED?, .SQLITE_PROTOCOL?: kind = .away
    default: kind = .failed
    }
    let reason = (error as? DatabaseError)?.message ?? "\(error)"
    let sentence =
      switch kind {
      case .unusable:
        "the store \(path) is damaged, or is none: \(reason); \"carillon store check\" looks at it, and a backup can "
          + "be put in its place"
      case .away:
        "another process has locked the store \(path) (\(reason)): see what has it open, such as a backup or a shell "
          + "of sqlite3"
      default: "the store \(path) cannot be used: \(reason)"
      }
    self.init(kind, path: path, sentence)
  }

  private static func isAboutWriting(_ error: any Error) -> Bool {
    let codes: [ResultCode] = [.SQLITE_IOERR_WRITE, .SQLITE_IOERR_FSYNC, .SQLITE_IOERR_TRUNCATE, .SQLITE_IOERR_SHMSIZE]
    return (error as? DatabaseError).map { codes.contains($0.extendedResultCode) } ?? false
  }
}
