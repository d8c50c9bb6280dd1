/// The bytes that a session has to send: one buffer, reused for every flush, so that all frames of a flush are one write.
@safe
struct HTTP2Output {
  private(set) var base: UnsafeMutableRawPointer
  private(set) var count = 0
  private var capacity: Int

  private static let initialCapacity = 64 * 1024
  /// A larger buffer is given back after use.
  private static let capacityKept = 1024 * 1024

  init() {
    capacity = Self.initialCapacity
    unsafe base = .allocate(byteCount: Self.initialCapacity, alignment: 64)
  }

  func deallocate() {
    unsafe base.deallocate()
  }

  var bytes: UnsafeRawBufferPointer { unsafe UnsafeRawBufferPointer(start: base, count: count) }

  mutating func clear() {
    count = 0
    guard capacity > Self.capacityKept else { return }
    unsafe base.deallocate()
    self = HTTP2Output()
  }

  @inline(__always)
  mutating func append(_ bytes: UnsafeRawPointer, count added: Int) {
    if capacity - count < added { grow(added) }
    unsafe (base + count).copyMemory(from: bytes, byteCount: added)
    count += added
  }

  private mutating func grow(_ added: Int) {
    let larger = max(capacity * 2, count + added)
    let moved = UnsafeMutableRawPointer.allocate(byteCount: larger, alignment: 64)
    unsafe moved.copyMemory(from: base, byteCount: count)
    unsafe base.deallocate()
    unsafe base = unsafe moved
    capacity = larger
  }
}
