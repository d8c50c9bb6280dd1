internal import PushWire

/// The client's side of one HTTP/2 connection, without a socket or a clock: bytes in, events out;
/// requests in, bytes out.
///
/// It is used by one thread at a time, in practice by its connection's event loop. After each
/// ``receive(_:)``, take the events, then call ``output(limit:)`` until it is empty. In a steady
/// state a request allocates nothing here.
@safe
package final class HTTP2ClientSession {
  package struct Options: Sendable {
    /// The most streams open at once. The peer's limit applies too.
    package var streamLimit = 1000
    /// The limits of what the session keeps of the peer's data. Error bodies are below 100 bytes.
    package var limits: HTTP2Limits = {
      var limits = HTTP2Limits()
      limits.bodyByteCount = 1024
      return limits
    }()

    package init() {}
  }

  package enum Submission: Hashable, Sendable {
    case submitted(streamID: Int32)
    /// The peer's or our own limit of open streams is reached.
    case full
    /// No further request can use this connection: it is going away, has failed, or has no stream
    /// numbers left.
    case finished
  }

  private var core: HTTP2ClientCore

  /// - Parameter buffers: those of the connection's event loop, if it has any; otherwise the
  ///   session's own.
  package init(options: Options = Options(), buffers: LoopBuffers = LoopBuffers()) {
    core = HTTP2ClientCore(limits: options.limits, streamLimit: options.streamLimit, buffers: buffers)
  }

  // MARK: State

  /// Why the session cannot continue; nil if it can.
  package var failure: HTTP2Failure? { core.failure }
  /// The last GOAWAY of the peer.
  package var goAway: HTTP2GoAway? { core.goAway }
  /// Requests that were submitted and have not ended.
  package var openStreamCount: Int { core.streams.count }
  /// The number of streams that may be open now: the peer's limit, at most our own; 1 until the
  /// peer's SETTINGS arrive.
  package var streamLimit: Int { core.streamLimit }

  /// How many requests ``submitting(_:)`` takes now.
  package var availableStreamCount: Int { acceptsRequests ? max(0, streamLimit - openStreamCount) : 0 }

  /// False once the connection is going away or has failed.
  package var acceptsRequests: Bool { core.acceptsRequests }

  /// The connection can be closed: nothing is in flight in either direction, and nothing can
  /// follow.
  package var isFinished: Bool { core.isFinished }

  // MARK: Requests

  /// The value of `authorization` for later requests, such as `bearer eyJ…`; nil with a
  /// certificate.
  package func setAuthorization(_ value: String?) { core.setAuthorization(value) }

  /// Calls `body` once, which submits any number of requests. Their bytes come with the next
  /// ``output(limit:)``.
  package func submitting<Result>(_ body: (inout HTTP2ClientCore) -> Result) -> Result { body(&core) }

  /// Submits a request whose whole reply is kept for ``takeReply(_:)`` until after its response
  /// event.
  package func submit(_ template: RequestTemplate, tag: UInt64) -> Submission {
    unsafe core.submit(
      template, token: UnsafeRawBufferPointer(start: nil, count: 0), identifier: nil, overrides: RequestOverrides(),
      tag: tag, keepsEverything: true)
  }

  /// The reply of a stream after its response event; nil for any other stream, and for the second
  /// call.
  package func takeReply(_ streamID: Int32) -> HTTP2Reply? { core.replies.removeValue(forKey: streamID) }

  /// Cancels a stream with RST_STREAM. Its end is reported as an event, unless it had its response
  /// already.
  package func cancel(_ streamID: Int32) { core.cancel(streamID) }

  /// Sends a PING. Its response is reported as ``HTTP2ClientEvent/pong(_:)``. Only a response to
  /// the last ping counts.
  package func ping(_ number: UInt64) { core.sendPing(number) }

  /// Sends GOAWAY without an error. What arrives later is ignored. Close the connection when the
  /// output has been sent.
  package func close() { core.close() }

  /// Calls `body` with every request that has not ended, once the connection is gone: its tag, its
  /// stream, and whether any of it was output.
  ///
  /// Take the events first. A request that was not output is certainly unsent.
  package func forEachOpenRequest(_ body: (_ tag: UInt64, _ streamID: Int32, _ wasSent: Bool) -> Void) {
    unsafe core.streams.forEach { stream in
      let (tag, streamID) = unsafe (stream.pointee.tag, stream.pointee.streamID)
      body(tag, streamID, core.isSent(streamID))
    }
  }

  // MARK: Bytes and events

  /// Processes bytes of the peer. The results are events; an error sets ``failure``.
  package func receive(_ bytes: UnsafeRawBufferPointer) { core.receive(unsafe Span(_unsafeBytes: bytes)) }

  /// The next event, in order; nil if there is none.
  package func nextEvent() -> HTTP2ClientEvent? { core.takeEvent() }

  /// Takes responses with status 200, up to the next other event, and calls `body` with their tags.
  package func takeAccepted(_ body: (_ tag: UInt64) -> Void) { core.takeAccepted(body) }

  /// The next bytes to send, valid until the next call to any session with the same buffers. Empty
  /// if there is nothing to send.
  ///
  /// - Parameter limit: bodies that waited for a window end with the first frame that reaches it.
  package func output(limit: Int = 256 * 1024) -> UnsafeRawBufferPointer { unsafe core.output(limit: limit) }
}
