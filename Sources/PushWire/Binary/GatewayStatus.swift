/// The status byte of an error response (BinaryProtocol.md, "The error response"). It is unsigned;
/// two known clients read 128 as −128.
package struct GatewayStatus: RawRepresentable, Hashable, Sendable {
  package let rawValue: UInt8

  package init(rawValue: UInt8) { self.rawValue = rawValue }

  package static let noErrors = GatewayStatus(rawValue: 0)
  package static let processingError = GatewayStatus(rawValue: 1)
  package static let missingDeviceToken = GatewayStatus(rawValue: 2)
  package static let missingTopic = GatewayStatus(rawValue: 3)
  package static let missingPayload = GatewayStatus(rawValue: 4)
  package static let invalidTokenSize = GatewayStatus(rawValue: 5)
  package static let invalidTopicSize = GatewayStatus(rawValue: 6)
  package static let invalidPayloadSize = GatewayStatus(rawValue: 7)
  package static let invalidToken = GatewayStatus(rawValue: 8)
  /// Not a failure: the identifier names the last notification that was sent successfully.
  package static let shutdown = GatewayStatus(rawValue: 10)
  /// The frame could not be parsed.
  package static let protocolError = GatewayStatus(rawValue: 128)
  package static let unknown = GatewayStatus(rawValue: 255)

  private static let meanings: KeyValuePairs<GatewayStatus, String> = [
    .noErrors: "no errors", .processingError: "processing error", .missingDeviceToken: "missing device token",
    .missingTopic: "missing topic", .missingPayload: "missing payload", .invalidTokenSize: "invalid token size",
    .invalidTopicSize: "invalid topic size", .invalidPayloadSize: "invalid payload size",
    .invalidToken: "invalid token", .shutdown: "shutdown", .protocolError: "protocol error", .unknown: "unknown",
  ]

  /// Every status that the protocol defines, in numerical order.
  package static let documented = meanings.map(\.key)

  /// The protocol's own text for the status, such as "invalid token".
  package var meaning: String { Self.meanings.first { $0.key == self }?.value ?? "undocumented status" }
}

extension GatewayStatus: CustomStringConvertible {
  /// The number and its meaning, such as "8 invalid token". Accounts count under this text.
  package var description: String { "\(rawValue) \(meaning)" }
}
