public import Carillon
public import Foundation
internal import PushGateway
internal import PushWire

/// A notification as it came to a simulated gateway.
public struct ReceivedNotification: Sendable {
  /// To whom; nil if the request named no token.
  public let token: DeviceToken?
  /// What was sent, byte for byte.
  public let payload: [UInt8]
  /// `apns-topic`; over the binary protocol the topic of the certificate.
  public let topic: String
  /// `apns-id`. Nil over the binary protocol.
  public let id: UUID?
  /// `apns-push-type`. Nil over the binary protocol.
  public let pushType: String?
  /// `apns-priority`, or item 5 of the frame. Nil: not said.
  public let priority: Int?
  /// `apns-expiration`, or item 4 of the frame: 1970 stands for "do not store". Nil: not said.
  public let expiration: Date?
  /// `apns-collapse-id`.
  public let collapseID: String?
  /// The number of the connection on which it came, from 1, in the order in which they opened.
  public let connection: Int
  /// Why it was refused, such as `410 Unregistered`. Nil: it was accepted.
  public let refusal: String?

  /// The payload as text.
  public var json: String { String(decoding: payload, as: UTF8.self) }
}

extension ReceivedNotification {
  init(_ frame: RecordedFrames.Frame) {
    token = frame.token.flatMap { try? DeviceToken(bytes: $0.bytes) }
    payload = frame.payload
    topic = frame.topic
    id = nil
    pushType = nil
    priority = frame.priority.map(Int.init)
    expiration = frame.expiration.map { Date(timeIntervalSince1970: TimeInterval($0)) }
    collapseID = nil
    connection = frame.connection
    refusal = frame.refusal.map { "\($0)" }
  }

  init(_ request: RecordedRequests.Request) {
    token = request.token.flatMap { try? DeviceToken(bytes: $0.bytes) }
    payload = request.payload
    topic = request.topic ?? request.app
    id = request.identifier.flatMap { UUID(uuidString: $0.description) }
    pushType = request.pushType
    priority = request.priority.flatMap { Int($0) }
    expiration = request.expiration.flatMap { TimeInterval($0) }.map { Date(timeIntervalSince1970: $0) }
    collapseID = request.collapseIdentifier
    connection = request.connection
    refusal = request.refusal.map { "\($0)" }
  }
}

extension DeviceToken {
  /// The same as the gateway's rules take it.
  var gatewayToken: TokenBytes {
    guard let token = TokenBytes(bytes: bytes) else { preconditionFailure("a device token without bytes") }
    return token
  }
}
