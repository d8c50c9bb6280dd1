internal import CNGHTTP2

/// A free list for nghttp2's allocations. All sessions of an event loop share one
/// (``LoopBuffers``).
@safe
final class HTTP2Memory: @unchecked Sendable {
  // Sync: used on one event loop only. A session that is freed on another thread does not touch it.
  let lists: UnsafeMutablePointer<carillon_h2_memory>

  init() {
    // Nil if the system has no memory. Swift's own allocations would fail then too.
    guard let lists = unsafe carillon_h2_memory_new() else { preconditionFailure("out of memory") }
    unsafe self.lists = unsafe lists
  }

  deinit {
    unsafe carillon_h2_memory_free(lists)
  }

  /// How often the system was asked for memory.
  var allocationCount: Int { unsafe lists.pointee.allocations }
}
