internal import GRDB

/// The store cannot do what was asked of it.
package struct StoreError: Error, Hashable, Sendable, CustomStringConvertible {
  package enum Kind: Hashable, Sendable {
    /// The disk is full.
    case full
    /// The disk cannot be written for another reason: an I/O error, a quota, a limit of file sizes.
    case unwritable
    /// The file is no store, is damaged, or belongs to a newer version.
    case unusable
    case failed
  }

  package let kind: Kind
  /// The path of the store.
  package let path: String
  /// A clause, such as `the store store.db cannot be written: disk I/O error`.
  package let description: String

  package init(_ kind: Kind, path: String, _ description: String) {
    self.kind = kind
    self.path = path
    self.description = description
  }

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
    default: kind = .failed
    }
    let reason = (error as? DatabaseError)?.message ?? "\(error)"
    let sentence =
      kind == .unusable
      ? "the store \(path) is damaged, or is none: \(reason); \"carillon store check\" looks at it, and a backup can "
        + "be put in its place" : "the store \(path) cannot be used: \(reason)"
    self.init(kind, path: path, sentence)
  }

  private static func isAboutWriting(_ error: any Error) -> Bool {
    let codes: [ResultCode] = [.SQLITE_IOERR_WRITE, .SQLITE_IOERR_FSYNC, .SQLITE_IOERR_TRUNCATE, .SQLITE_IOERR_SHMSIZE]
    return (error as? DatabaseError).map { codes.contains($0.extendedResultCode) } ?? false
  }
}
