/// A limit of memory that several values share. It counts bytes and holds none.
package protocol MemoryPool: Sendable {
  /// Makes the share of one more value. At first it takes nothing.
  func share() -> any MemoryShare
}

/// What one value takes of a pool. Everything is given back when the share goes.
package protocol MemoryShare: Sendable {
  /// Changes how many bytes the value takes.
  ///
  /// - Parameter isNeeded: the bytes are taken even if that exceeds the limit.
  /// - Returns: false: there are not as many left, and nothing has changed.
  func set(_ byteCount: Int, isNeeded: Bool) -> Bool
}
