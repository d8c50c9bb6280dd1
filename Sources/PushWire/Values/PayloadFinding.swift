/// How a payload is sent, which decides its largest size.
package enum PayloadTransport: Hashable, Sendable {
  case binary(FrameVersion)
  case http2
  /// VoIP notifications over HTTP/2.
  case voip
  /// Broadcast channels of Live Activities over HTTP/2.
  case broadcast

  /// The largest payload in bytes of UTF-8: 256, 256 and 2048 for the commands of the binary
  /// protocol, 4096 for HTTP/2, 5120 for VoIP and broadcast.
  package var payloadLimit: Int {
    switch self {
    case .binary(let command): command.payloadLimitDefault
    case .http2: 4096
    case .voip, .broadcast: 5120
    }
  }

  var name: String {
    switch self {
    case .binary(let command): "command \(command.rawValue) of the binary protocol"
    case .http2: "HTTP/2"
    case .voip: "a VoIP notification"
    case .broadcast: "a broadcast channel"
    }
  }
}

/// An error or a warning about a payload.
package struct PayloadFinding: Hashable, Sendable {
  package enum Severity: String, Hashable, Sendable {
    /// The service would reject it, or it cannot do what it says. It should not be sent.
    case error
    /// It may be intended.
    case warning
  }

  package let severity: Severity
  /// The place of the finding; the root `$` if it concerns the whole payload.
  package let path: JSONPath
  /// A whole sentence.
  package let sentence: String

  package init(severity: Severity, path: JSONPath, sentence: String) {
    (self.severity, self.path, self.sentence) = (severity, path, sentence)
  }
}

extension PayloadFinding: CustomStringConvertible {
  /// For example "error at $.aps.badge: It must be a whole number, not a string."
  package var description: String { "\(severity.rawValue) at \(path): \(sentence)" }
}
