package import PushWire

/// An event of a client session. It allocates nothing, because one read may cause thousands.
@safe
package enum HTTP2ClientEvent {
  /// A response is complete. The last event of its stream.
  case response(HTTP2Response)
  /// A stream has ended without a complete response. The last event of that stream.
  case ended(HTTP2StreamEnd)
  /// The peer's SETTINGS have arrived; ``HTTP2ClientSession/streamLimit`` has their limit.
  case settings
  /// ``HTTP2ClientSession/goAway`` was set or has changed. Streams that it ends are reported as
  /// ``ended(_:)``; the others continue.
  case goAway
  /// The peer has answered a ping.
  case pong(UInt64)
}

/// A complete response. Its bytes are valid until the next call of
/// ``HTTP2ClientSession/nextEvent()``.
@safe
package struct HTTP2Response {
  package let streamID: Int32
  /// The tag that was submitted with the request.
  package let tag: UInt64
  /// 100…999; 0 if the peer's status was not a number.
  package let status: UInt16
  /// Our identifier, or one that the service made.
  package let apnsID: APNSIdentifier?
  /// `retry-after` in seconds, if it was a number.
  package let retryAfter: UInt32?
  /// `date` in seconds since 1970, only for refusals. It shows the error of our clock.
  package let date: Int64?
  /// At most ``HTTP2Limits/bodyByteCount`` bytes; empty for success.
  package let body: UnsafeRawBufferPointer
  /// The body was longer.
  package let isBodyCut: Bool
}

/// The end of a stream that has no complete response.
package struct HTTP2StreamEnd {
  package let streamID: Int32
  /// The tag that was submitted with the request.
  package let tag: UInt64
  package let errorCode: HTTP2ErrorCode
  /// The peer did not process the request (REFUSED_STREAM, or a GOAWAY with a lower last stream),
  /// or it was never sent. So a resend cannot make a duplicate.
  package let isUnprocessed: Bool
  /// The status that came before the end; 0 if none came.
  package let status: UInt16
}

/// The whole response to a request that was submitted for it.
package struct HTTP2Reply: Sendable {
  package var status: UInt16
  /// In the order of arrival, without pseudo-headers.
  package var fields: [(name: String, value: String)]
  package var body: [UInt8]

  /// The first value of a field.
  package subscript(name: String) -> String? { fields.first { $0.name == name }?.value }
}
