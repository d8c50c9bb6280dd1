internal import CNGHTTP2
internal import PushTransport
internal import Synchronization

/// What the sessions of an event loop share: their output, and a free list for nghttp2's
/// allocations.
@safe
package final class HTTP2ServerMemory: @unchecked Sendable {
  // Sync: used on one event loop only. A session that is freed on another thread does not touch it.
  let lists: UnsafeMutablePointer<carillon_h2_memory>
  let output = HTTP2Output()

  package init() {
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

/// The memory of each event loop, made for its first connection.
final class HTTP2ServerMemories: Sendable {
  private let memories = Mutex<[ObjectIdentifier: HTTP2ServerMemory]>([:])

  /// - Parameter loop: its buffers, of which it has one set.
  func memory(of loop: LoopBuffers) -> HTTP2ServerMemory {
    memories.withLock { memories in
      let memory = memories[ObjectIdentifier(loop)] ?? HTTP2ServerMemory()
      memories[ObjectIdentifier(loop)] = memory
      return memory
    }
  }
}
