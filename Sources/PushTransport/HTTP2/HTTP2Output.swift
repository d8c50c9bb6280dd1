/// The output of a session: one buffer, reused for every flush, so that all frames of a flush are
/// one write.
///
/// It holds bytes only between the call that makes them and the write that copies them. So all
/// sessions of an event loop share one (``LoopBuffers``).
@safe
final class HTTP2Output: @unchecked Sendable {
  // Sync: used on one event loop only, by one session at a time.
  private(set) var base = unsafe UnsafeMutableRawPointer?.none
  private(set) var count = 0
  private var capacity = 0

  private static let initialCapacity = 64 * 1024
  /// A larger buffer is freed after use.
  private static let capacityKept = 1024 * 1024

  deinit { unsafe base?.deallocate() }

  var bytes: UnsafeRawBufferPointer { unsafe UnsafeRawBufferPointer(start: base, count: count) }

  func clear() {
    count = 0
    guard capacity > Self.capacityKept else { return }
    unsafe base?.deallocate()
    unsafe base = nil
    capacity = 0
  }

  @inline(__always)
  func append(_ bytes: UnsafeRawPointer, count added: Int) {
    let base = unsafe room(for: added)
    unsafe (base + count).copyMemory(from: bytes, byteCount: added)
    count += added
  }

  @inline(__always)
  private func room(for added: Int) -> UnsafeMutableRawPointer {
    if let base = unsafe base, capacity - count >= added { return unsafe base }
    return unsafe grow(added)
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
