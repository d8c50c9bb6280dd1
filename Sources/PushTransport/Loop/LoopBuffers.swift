internal import NIOCore

/// The large buffers that are needed for the time of one call: one set for each event loop, not for each connection.
///
/// So a thousand connections need no more of them than one, and what the last one used is still in the processor's cache for the next.
@safe
package final class LoopBuffers: @unchecked Sendable {
  // Sync: used on one event loop alone, and never across a call that could let another user in: whoever empties a buffer fills it and hands it on at once.

  /// What TLS made of a write. The socket has nearly always taken it in by the time the next one is needed; if not, the channel keeps the memory and
  /// this becomes a new one.
  var ciphertext = ByteBuffer()
  /// What TLS made of a read.
  var plaintext = ByteBuffer()
  /// What an HTTP/2 session made of its frames.
  let http2Output = HTTP2Output()
  /// What HTTP/2 sessions allocate comes from here, and outlives the call: each session holds on to it.
  let http2Memory = HTTP2Memory()
  private var batch = unsafe UnsafeMutableRawBufferPointer(start: nil, count: 0)

  /// A larger buffer is given back after use instead of kept for the next.
  static let byteCountKept = 512 * 1024

  package init() {}

  deinit {
    unsafe batch.deallocate()
  }

  /// Memory for a batch of frames, at least so much, aligned to a cache line. What was in it is gone.
  func batch(byteCount: Int) -> UnsafeMutableRawBufferPointer {
    if unsafe batch.count < byteCount {
      unsafe batch.deallocate()
      unsafe batch = .allocate(byteCount: byteCount, alignment: 64)
    }
    return unsafe batch
  }
}
