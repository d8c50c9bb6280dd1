internal import NIOCore

/// The large buffers that are needed during one call: one set for each event loop instead of one
/// for each connection.
///
/// So a thousand connections need no more of them than one, and the buffers are usually still in
/// the processor's cache.
@safe
package final class LoopBuffers: @unchecked Sendable {
  // Sync: used on one event loop only, and never across a call that another user could interrupt:
  // each user empties a buffer, fills it and passes it on at once.

  /// The ciphertext of a write. The socket has nearly always taken it before the next write. If
  /// not, the channel keeps the memory and this becomes a new buffer.
  var ciphertext = ByteBuffer()
  /// The plaintext of a read.
  var plaintext = ByteBuffer()
  /// Outputs of HTTP/2 sessions that none uses now. A session keeps one from its first frame until
  /// its flush.
  private var outputs: [HTTP2Output] = []
  private var batch = unsafe UnsafeMutableRawBufferPointer(start: nil, count: 0)

  private static let outputCountKept = 8
  /// A larger buffer is freed after use.
  static let byteCountKept = 512 * 1024

  package init() {}

  deinit { unsafe batch.deallocate() }

  /// An empty output.
  func takeOutput() -> HTTP2Output {
    let output = outputs.popLast() ?? HTTP2Output()
    output.clear()
    return output
  }

  /// The output is of no use to its session, but its bytes stay until it is taken again, or others
  /// are given.
  func give(_ output: HTTP2Output) {
    // The bytes of the new one are still to be sent, those of the oldest are not.
    if outputs.count == Self.outputCountKept { outputs.removeFirst() }
    outputs.append(output)
  }

  /// Returns memory for a batch of frames, at least this many bytes, aligned to a cache line. Its
  /// old content is undefined.
  func batch(byteCount: Int) -> UnsafeMutableRawBufferPointer {
    if unsafe batch.count < byteCount {
      unsafe batch.deallocate()
      unsafe batch = .allocate(byteCount: byteCount, alignment: 64)
    }
    return unsafe batch
  }
}
