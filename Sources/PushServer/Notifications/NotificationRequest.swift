internal import Carillon
internal import Foundation
internal import PushService
internal import PushStore
internal import PushWire

/// One notification as a request describes it.
struct NotificationRequest: Sendable {
  /// Nil: ``device`` or ``user`` is set, or the notification has a channel.
  var token: DeviceToken?
  var device: StoredUUID?
  var user: String?
  /// Only the newest device of the user gets it.
  var isOncePerUser = false
  var notification: PushNotification
  /// What the caller wrote beside it.
  var reference: String?

  private static let fields =
    FieldReader.notificationFields + ["token", "deviceId", "userId", "each", "channel", "expiration", "reference"]
  /// Characters.
  static let referenceLimit = 128
  /// Bytes; the identifiers of Apple's channels have 24.
  static let channelLimit = 128

  /// - Parameter isLine: one of a batch.
  /// - Throws: ``Problem`` naming the field that is wrong.
  init(parsing bytes: ArraySlice<UInt8>, isLine: Bool = false) throws {
    let fields = try FieldReader(parsing: bytes, fields: Self.fields, isLine: isLine)
    notification = try fields.notification()
    user = try fields.text("userId")
    isOncePerUser = try fields.isOncePerUser("each")
    try checkUser(fields, isLine: isLine)
    switch (try fields.text("token"), try fields.text("deviceId"), try fields.text("channel")) {
    case (nil, nil, nil) where user != nil: break
    case (let text?, nil, nil):
      token = try DeviceToken(registered: text, pointer: "/token")
    case (nil, let text?, nil):
      guard let id = StoredUUID(text) else {
        throw fields.wrong("deviceId", "The device's id must be as the service made it.")
      }
      device = id
    case (nil, nil, let channel?):
      guard !isLine else {
        throw fields.wrong("channel", "A broadcast is a request of its own, and no line of a batch.")
      }
      guard channel.utf8.count <= Self.channelLimit else {
        throw fields.wrong("channel", "The channel has more than \(Self.channelLimit) bytes.")
      }
      notification.channel = channel
    case (nil, nil, nil):
      throw fields.wrong("token", "The device's token or deviceId is missing, or in a batch the userId.")
    case (_, _, _?): throw fields.wrong("channel", "A broadcast to a channel goes to no device.")
    case (_?, _?, nil): throw fields.wrong("deviceId", "It has a token already.")
    }
    if let number = try fields.integer("expiration") {
      guard let seconds = UInt32(exactly: number) else {
        throw fields.wrong("expiration", "The expiration must be in seconds since 1970, or 0.")
      }
      notification.expiration = seconds == 0 ? .notStored : .at(Date(timeIntervalSince1970: Double(seconds)))
    }
    reference = try fields.text("reference")
    guard reference.map({ $0.unicodeScalars.count <= Self.referenceLimit }) ?? true else {
      throw fields.wrong("reference", "The reference has more than \(Self.referenceLimit) characters.")
    }
  }

  private func checkUser(_ fields: FieldReader, isLine: Bool) throws {
    guard let user else {
      guard fields["each"] == nil else { throw fields.wrong("each", "Only a user has several devices.") }
      return
    }
    guard UserName.isValid(user) else { throw fields.wrong("userId", UserName.rule) }
    guard isLine else {
      throw fields.wrong("userId", "A user may have several devices: send it with notifications:batch.")
    }
    for other in ["token", "deviceId", "channel"] where fields[other] != nil {
      throw fields.wrong(other, "It goes to a user already.")
    }
  }
}

extension PreparedNotification {
  /// Warnings for a notification that is sent as it stands: nothing fills its placeholders.
  var requestWarnings: [String] {
    guard
      payload.indices.dropLast().contains(where: {
        payload[$0] == UInt8(ascii: "{") && payload[$0 + 1] == UInt8(ascii: "{")
      })
    else { return warnings }
    return PayloadPlaceholders.names(in: payload).map {
      "{{\($0)}} is sent as it stands: only campaigns and carillon send fill placeholders."
    } + warnings
  }
}

extension DeviceToken {
  /// The bytes that the shortest token of Apple's has. A shorter text was cut off on its way.
  static let leastByteCount = 32

  /// Reads a token that an app got when it registered.
  ///
  /// - Parameter pointer: where it stands in the body; nil: in the address, or in a form.
  /// - Throws: ``Problem``.
  init(registered text: String, pointer: String?) throws {
    do throws(CarillonError) { self = try DeviceToken(hex: text) } catch {
      throw Problem.malformed(error.message, pointer: pointer)
    }
    guard bytes.count >= Self.leastByteCount else {
      throw Problem.malformed(
        "The device token has \(bytes.count) bytes, and Apple's have \(Self.leastByteCount) or more: it was cut off.",
        pointer: pointer)
    }
  }
}
