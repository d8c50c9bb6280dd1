package import PushWire

/// What a client session has heard. Nothing in it is allocated: thousands may come from one read.
@safe
package enum HTTP2ClientEvent {
  /// A response is complete. The last word about its stream.
  case response(HTTP2Response)
  /// A stream has ended without a complete response. The last word about it.
  case ended(HTTP2StreamEnd)
  /// The peer's SETTINGS have come; ``HTTP2ClientSession/streamLimit`` says what they allow.
  case settings
  /// ``HTTP2ClientSession/goAway`` is there, or has changed. The streams that it gives up are told as ``ended(_:)``; the others go on.
  case goAway
  /// The peer has answered a ping.
  case pong(UInt64)
}

/// A complete response. Bytes in it live until the next call of ``HTTP2ClientSession/nextEvent()``.
@safe
package struct HTTP2Response {
  package let streamID: Int32
  /// What the request was submitted with.
  package let tag: UInt64
  /// 100…999; 0 if the peer's was no number.
  package let status: UInt16
  /// As echoed or made up by the service.
  package let apnsID: APNSIdentifier?
  /// The sandbox's own identifier, for its delivery log.
  package let uniqueID: APNSIdentifier?
  /// `retry-after` in seconds, if it was a number.
  package let retryAfter: UInt32?
  /// `date` in seconds since 1970, of refusals alone: how wrong our clock is.
  package let date: Int64?
  /// At most ``HTTP2Limits/bodyByteCount`` bytes; empty for successes.
  package let body: UnsafeRawBufferPointer
  /// The body was longer.
  package let isBodyCut: Bool
}

/// How a stream ended that has no complete response.
package struct HTTP2StreamEnd {
  package let streamID: Int32
  /// What the request was submitted with.
  package let tag: UInt64
  package let errorCode: HTTP2ErrorCode
  /// The peer has said that it did nothing with the request (REFUSED_STREAM, or a GOAWAY with a lower last stream), or it was never sent:
  /// sending it again cannot make a duplicate.
  package let isUnprocessed: Bool
  /// The status that had come before the end; 0 if none had.
  package let status: UInt16
}

/// A response with everything in it, to a request that was submitted for that.
package struct HTTP2Reply: Sendable {
  package var status: UInt16
  /// In the order of arrival, without pseudo-headers.
  package var fields: [(name: String, value: String)]
  package var body: [UInt8]

  /// The first value of a field.
  package subscript(name: String) -> String? { fields.first { $0.name == name }?.value }
}
