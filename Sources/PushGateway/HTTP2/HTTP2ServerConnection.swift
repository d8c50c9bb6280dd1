internal import CNGHTTP2
internal import PushTransport

/// nghttp2's session of a server with the core that its callbacks change. Its owner frees it with
/// ``deallocate()``.
@safe
struct HTTP2ServerConnection {
  let core: UnsafeMutablePointer<HTTP2ServerCore>
  let session: OpaquePointer
  private let memory: HTTP2ServerMemory
  private let share: UnsafeMutablePointer<carillon_h2_share>

  /// - Parameter make: makes the session from the core and its share of the memory; nil if that
  ///   fails.
  /// - Throws: if nghttp2 is out of memory.
  init(
    _ value: HTTP2ServerCore, _ memory: HTTP2ServerMemory,
    make: (UnsafeMutablePointer<HTTP2ServerCore>, UnsafeMutablePointer<carillon_h2_share>) -> OpaquePointer?
  ) throws(HTTP2Failure) {
    let core = UnsafeMutablePointer<HTTP2ServerCore>.allocate(capacity: 1)
    unsafe core.initialize(to: value)
    let share = unsafe carillon_h2_share_new(memory.lists)
    guard let share = unsafe share, let session = unsafe make(core, share) else {
      unsafe carillon_h2_share_free(share)
      unsafe Self.free(core)
      throw HTTP2Failure(errorCode: .internalError, description: "nghttp2 could not make a session")
    }
    self.memory = memory
    unsafe self.share = unsafe share
    unsafe self.core = unsafe core
    unsafe self.session = unsafe session
  }

  func deallocate() {
    unsafe carillon_h2_session_end(session, share)
    unsafe Self.free(core)
  }

  private static func free(_ core: UnsafeMutablePointer<HTTP2ServerCore>) {
    unsafe core.pointee.deallocate()
    unsafe core.deinitialize(count: 1)
    unsafe core.deallocate()
  }

  /// Nothing is in flight in either direction, and nothing can follow.
  var isFinished: Bool {
    unsafe nghttp2_session_want_read(session) == 0 && nghttp2_session_want_write(session) == 0
  }

  /// How often nghttp2 has allocated from the system, for all sessions with the same memory.
  var allocationCount: Int { memory.allocationCount }

  /// What could not be submitted for want of memory would be missing without a trace: the session
  /// fails.
  func check(_ result: Int32) {
    guard result < 0, nghttp2_is_fatal(result) != 0, unsafe core.pointee.failure == nil else { return }
    unsafe core.pointee.failure = HTTP2Failure(library: Int(result))
  }

  /// Processes bytes of the peer.
  func receive(_ bytes: UnsafeRawBufferPointer) {
    guard unsafe core.pointee.failure == nil, bytes.count > 0 else { return }
    let taken = unsafe nghttp2_session_mem_recv(
      session, bytes.baseAddress?.assumingMemoryBound(to: UInt8.self), bytes.count)
    if taken < 0 { unsafe core.pointee.failure = HTTP2Failure(library: taken) }
  }

  /// The next bytes to send.
  ///
  /// - Parameters:
  ///   - limit: the bytes end with the first frame that reaches it.
  ///   - appended: called after each frame that is not DATA, with its place in the output.
  @inline(__always)
  func output(limit: Int, appended: (_ start: Int, _ count: Int) -> Void = { _, _ in }) -> UnsafeRawBufferPointer {
    unsafe core.pointee.output.clear()
    unsafe core.pointee.outputLimit = limit
    while unsafe core.pointee.output.bytes.count < limit {
      var bytes: UnsafePointer<UInt8>?
      let count = unsafe nghttp2_session_mem_send(session, &bytes)
      guard count > 0, let bytes = unsafe bytes else {
        // Zero: nothing more to send, or DATA frames have reached the limit.
        if count < 0, unsafe core.pointee.failure == nil { unsafe core.pointee.failure = HTTP2Failure(library: count) }
        break
      }
      let start = unsafe core.pointee.output.bytes.count
      unsafe core.pointee.output.append(bytes, count: count)
      appended(start, count)
    }
    return unsafe core.pointee.output.bytes
  }
}
