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
}
