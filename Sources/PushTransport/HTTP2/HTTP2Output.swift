/// The output of a session: one buffer, so that all frames of a flush are one write.
///
/// It holds bytes only between the calls that make them and the write that copies them. So the
/// sessions of an event loop share a few (``LoopBuffers``).
@safe
package final class HTTP2Output: @unchecked Sendable {
  // Sync: used on one event loop only, by one session at a time.
  // Internal: the compiler leaves out the check of each access only where it sees all of them. With
  // it a request took 300 instructions more.
  private(set) var base = unsafe UnsafeMutableRawPointer?.none
  private(set) var count = 0
  private var capacity = 0

  private static let initialCapacity = 1024
  /// A larger buffer is freed after use.
  private static let capacityKept = 1024 * 1024

  deinit { unsafe base?.deallocate() }

  package var bytes: UnsafeRawBufferPointer { unsafe UnsafeRawBufferPointer(start: base, count: count) }

  package init() {}

  package func clear() {
    count = 0
    guard capacity > Self.capacityKept else { return }
    unsafe base?.deallocate()
    unsafe base = nil
    capacity = 0
  }

  /// Makes room for so many bytes, and returns its address. ``advance(_:)`` says how many were
  /// written.
  @inline(__always)
  func room(for added: Int) -> UnsafeMutableRawPointer {
    if let base = unsafe base, capacity - count >= added { return unsafe base + count }
    return unsafe grow(added) + count
  }

  @inline(__always)
  func advance(_ added: Int) { count += added }

  /// Appends a frame's header and makes room for its payload, which the caller writes.
  @inline(__always)
  func frame(_ kind: UInt8, flags: UInt8, streamID: Int32, byteCount: Int) -> UnsafeMutableRawPointer {
    let place = unsafe room(for: HTTP2Frame.headerByteCount + byteCount)
    unsafe HTTP2Frame.write(kind, flags: flags, streamID: streamID, byteCount: byteCount, to: place)
    advance(HTTP2Frame.headerByteCount + byteCount)
    return unsafe place + HTTP2Frame.headerByteCount
  }

  /// Writes a number in network order over bytes that were appended.
  package func write(_ number: UInt32, at offset: Int) {
    guard let base = unsafe base, offset >= 0, offset + 4 <= count else { return }
    unsafe (base + offset).storeBytes(of: number.bigEndian, as: UInt32.self)
  }

  /// The bytes from this place on are taken back.
  func truncate(to count: Int) { self.count = min(count, self.count) }

  @inline(__always)
  package func append(_ bytes: UnsafeRawPointer, count added: Int) {
    unsafe room(for: added).copyMemory(from: bytes, byteCount: added)
    count += added
  }

  func append(_ bytes: [UInt8]) {
    unsafe bytes.withUnsafeBytes { bytes in
      if let base = bytes.baseAddress { unsafe append(base, count: bytes.count) }
    }
  }

  private func grow(_ added: Int) -> UnsafeMutableRawPointer {
    let larger = max(Self.initialCapacity, capacity * 2, count + added)
    let moved = UnsafeMutableRawPointer.allocate(byteCount: larger, alignment: 64)
    if let base = unsafe base {
      unsafe moved.copyMemory(from: base, byteCount: count)
      unsafe base.deallocate()
    }
    unsafe base = unsafe moved
    capacity = larger
    return unsafe moved
  }
}
