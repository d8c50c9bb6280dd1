internal import Carillon
internal import PushEngine
internal import PushSend
internal import PushWire

/// The check of a payload file before it is sent.
struct PayloadCheck: Sendable {
  enum Purpose: Hashable, Sendable {
    /// A notification of the binary protocol.
    case frame(FrameVersion)
    case notification(PushType)
    case broadcast
  }

  let file: String
  /// The size with placeholders of one character.
  let byteCount: Int
  let transport: PayloadTransport
  /// The columns that a token file must have.
  let columns: [String]
  let findings: [PayloadFinding]

  /// False: the payload would be refused.
  var isGood: Bool { !findings.contains { $0.severity == .error } }

  /// Reads a payload file and checks it.
  ///
  /// - Parameter priority: 10 or 5, or 1 over HTTP/2; nil: none.
  init(file: String, for purpose: Purpose, priority: UInt8?) throws(CarillonError) {
    let template = try PayloadTemplate.read(file: file)
    let sample = template.sample
    self.file = file
    byteCount = sample.count
    columns = template.columns
    switch purpose {
    case .frame(let version):
      transport = .binary(version)
      findings = Payload.check(sample, for: transport, priority: priority)
    case .notification(let type):
      (transport, findings) = Self.check(sample, Self.headers(type), priority)
    case .broadcast:
      var headers = Self.headers(.liveActivity)
      (headers.channelIdentifier, headers.expiration) = ("a", 0)
      (transport, findings) = Self.check(sample, headers, priority)
    }
  }

  /// Headers that pass every check.
  private static func headers(_ type: PushType) -> ProviderHeaders {
    ProviderHeaders(topic: "com.example.app", pushType: type)
  }

  private static func check(
    _ sample: [UInt8], _ headers: ProviderHeaders, _ priority: UInt8?
  ) -> (PayloadTransport, [PayloadFinding]) {
    var headers = headers
    headers.priority = priority
    let credential: ProviderCredentialKind =
      headers.pushType == .mdm ? .certificate(userIdentifier: nil, topics: []) : .token
    return (headers.payloadTransport, headers.findings(payload: sample, credential: credential))
  }

  var json: String {
    return JSONWriter.text {
      $0.field("file", file)
      $0.field("good", isGood)
      $0.field("bytes", byteCount)
      $0.field("limit", transport.payloadLimit)
      $0.field("columns", columns)
      $0.array("findings", findings) { finding, json in
        json.field("severity", finding.severity.rawValue)
        json.field("path", "\(finding.path)")
        json.field("sentence", finding.sentence)
      }
    }
  }
}
