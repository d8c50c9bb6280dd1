internal import CNGHTTP2

/// What nghttp2 has freed, kept for what it asks for next. All sessions of an event loop share one (``LoopBuffers``).
@safe
final class HTTP2Memory: @unchecked Sendable {
  // Sync: used on one event loop alone; a session that ends elsewhere leaves it alone.
  let lists: UnsafeMutablePointer<carillon_h2_memory>

  init() {
    // nil if the system has no memory, which no allocation in Swift survives either.
    guard let lists = unsafe carillon_h2_memory_new() else { preconditionFailure("out of memory") }
    unsafe self.lists = unsafe lists
  }

  deinit {
    unsafe carillon_h2_memory_free(lists)
  }

  /// How often the system was asked for memory.
  var allocationCount: Int { unsafe lists.pointee.allocations }
}
