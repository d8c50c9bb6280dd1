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

  deinit { unsafe carillon_h2_memory_free(lists) }

  /// For tests: nothing is kept for later, and after so many calls so many get no memory.
  func failAllocations(after: Int, count: Int) {
    unsafe lists.pointee.limit = 0
    unsafe lists.pointee.failing_after = after
    unsafe lists.pointee.failing_count = count
  }

  /// How often the system was asked for memory.
  var allocationCount: Int { unsafe lists.pointee.allocations }
}
