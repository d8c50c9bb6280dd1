/// Memory that several values share. It counts bytes and has none.
package protocol MemoryPool: Sendable {
  /// For one more value, which takes nothing at first.
  func share() -> any MemoryShare
}

/// What one value takes of a pool. Everything is given back when the share goes.
package protocol MemoryShare: Sendable {
  /// From now on the value takes so many bytes.
  ///
  /// - Parameter isNeeded: they are taken whatever the others have.
  /// - Returns: false: there are not as many left, and nothing has changed.
  func set(_ byteCount: Int, isNeeded: Bool) -> Bool
}
