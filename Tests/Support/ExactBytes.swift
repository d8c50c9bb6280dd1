/// Calls `body` with a copy of the bytes in an allocation of exactly their size. AddressSanitizer
/// then reports a read of even one byte beyond them. An array's own storage has spare room in which
/// such a read would stay unnoticed.
package func withExactBytes<R>(
  _ bytes: some Collection<UInt8>, _ body: (UnsafeRawBufferPointer) throws -> R
) rethrows -> R {
  let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 1)
  defer { unsafe copy.deallocate() }
  unsafe copy.copyBytes(from: bytes)
  return try unsafe body(UnsafeRawBufferPointer(copy))
}

/// Calls `body` with an allocation of exactly `byteCount` bytes, filled with 0xEE, and returns the
/// bytes that `body` says it wrote.
package func writingExactBytes(_ byteCount: Int, _ body: (UnsafeMutableRawBufferPointer) -> Int) -> [UInt8] {
  let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: byteCount, alignment: 1)
  defer { unsafe memory.deallocate() }
  unsafe memory.initializeMemory(as: UInt8.self, repeating: 0xEE)
  let written = unsafe body(memory)
  return unsafe Array(memory.prefix(written))
}

extension SeededGenerator {
  /// Cuts bytes into random pieces. Some are empty and many have one byte.
  package mutating func cut(_ bytes: [UInt8]) -> [ArraySlice<UInt8>] {
    var pieces: [ArraySlice<UInt8>] = []
    var rest = bytes[...]
    while !rest.isEmpty {
      let longest = [1, 1, 2, 7, 40, 300, 5000].randomElement(using: &self) ?? 1
      let count = Int.random(in: 0...min(longest, rest.count), using: &self)
      pieces.append(rest.prefix(count))
      rest = rest.dropFirst(count)
    }
    return pieces
  }
}
