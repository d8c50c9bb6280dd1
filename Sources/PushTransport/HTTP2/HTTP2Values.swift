/// An error code of RST_STREAM or GOAWAY (RFC 9113, section 7).
package struct HTTP2ErrorCode: RawRepresentable, Hashable, Sendable {
  package let rawValue: UInt32

  package init(rawValue: UInt32) { self.rawValue = rawValue }

  package static let noError = HTTP2ErrorCode(rawValue: 0)
  package static let protocolError = HTTP2ErrorCode(rawValue: 1)
  package static let internalError = HTTP2ErrorCode(rawValue: 2)
  package static let flowControlError = HTTP2ErrorCode(rawValue: 3)
  package static let frameSizeError = HTTP2ErrorCode(rawValue: 6)
  /// The peer did not process the stream, so its request may be sent again.
  package static let refusedStream = HTTP2ErrorCode(rawValue: 7)
  package static let cancel = HTTP2ErrorCode(rawValue: 8)
  package static let compressionError = HTTP2ErrorCode(rawValue: 9)
  package static let enhanceYourCalm = HTTP2ErrorCode(rawValue: 11)

  private static let names = [
    "NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED",
    "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
  ]
}

extension HTTP2ErrorCode: CustomStringConvertible {
  /// For example `7 REFUSED_STREAM`.
  package var description: String {
    "\(rawValue) \(Self.names.indices.contains(Int(rawValue)) ? Self.names[Int(rawValue)] : "unknown")"
  }
}

/// A GOAWAY of the peer.
package struct HTTP2GoAway: Hashable, Sendable {
  /// Streams above it were not processed and never will be.
  package let lastStreamID: Int32
  package let errorCode: HTTP2ErrorCode
  /// At most ``debugByteCountLimit`` bytes of the debug data. The service writes `{"reason":…}`.
  package let debugData: [UInt8]
  package static let debugByteCountLimit = 1024

  package init(lastStreamID: Int32, errorCode: HTTP2ErrorCode, debugData: [UInt8]) {
    (self.lastStreamID, self.errorCode, self.debugData) = (lastStreamID, errorCode, debugData)
  }
}

/// Why a session cannot continue: the peer broke the rules of HTTP/2, or the server's library has
/// failed.
package struct HTTP2Failure: Error, Hashable, Sendable, CustomStringConvertible {
  /// The error code of our GOAWAY.
  package let errorCode: HTTP2ErrorCode
  /// For example "the peer broke a rule of HTTP/2: SETTINGS: stream_id != 0".
  package let description: String

  package init(errorCode: HTTP2ErrorCode, description: String) {
    (self.errorCode, self.description) = (errorCode, description)
  }
}

/// One header field to send.
package struct HTTP2Field: Hashable, Sendable {
  /// In lower case.
  package var name: String
  package var value: String
  /// False: a literal that must not enter a dynamic table (RFC 7541, 6.2.3), for secrets and for
  /// values that never repeat.
  package var isIndexed: Bool

  package init(_ name: String, _ value: String, isIndexed: Bool = true) {
    (self.name, self.value, self.isIndexed) = (name, value, isIndexed)
  }
}

/// Limits of what a session keeps for the peer, per stream.
package struct HTTP2Limits: Sendable {
  /// Names and values of one header block in total, plus 32 bytes for each field as in
  /// SETTINGS_MAX_HEADER_LIST_SIZE.
  package var headerByteCount = 16 * 1024
  package var headerCount = 64
  /// Bytes of a body beyond this are counted and discarded.
  package var bodyByteCount = 8 * 1024

  package init() {}
}

extension HTTP2Failure {
  /// The reason in the GOAWAY for a peer that breaks the rules.
  package init(goAway code: HTTP2ErrorCode, debugData: String) {
    self.init(
      errorCode: code,
      description: "the peer broke a rule of HTTP/2 (\(code))" + (debugData.isEmpty ? "" : ": \(debugData)"))
  }
}
