internal import Carillon
internal import Foundation
internal import PushService
internal import PushStore
internal import PushWire

/// One notification as a request describes it.
struct NotificationRequest: Sendable {
  /// Nil: ``device`` is set.
  var token: DeviceToken?
  var device: StoredUUID?
  var notification: PushNotification
  /// What the caller wrote beside it.
  var reference: String?

  private static let fields = [
    "token", "deviceId", "payload", "pushType", "priority", "expiration", "collapseId", "reference",
  ]
  /// Characters.
  static let referenceLimit = 128

  /// - Parameter isLine: one of a batch.
  /// - Throws: ``Problem`` naming the field that is wrong.
  init(parsing bytes: ArraySlice<UInt8>, isLine: Bool = false) throws {
    guard case .object(let members) = try JSONBody.value(bytes, isLine: isLine) else {
      throw Problem.malformed("The \(isLine ? "line" : "body") must be a JSON object.")
    }
    try self.init(members)
  }

  init(_ members: [JSONMember]) throws {
    // So few that going through them costs less than a dictionary does.
    for (index, member) in members.enumerated() {
      guard Self.fields.contains(member.key) else {
        throw Problem.malformed("There is no field \"\(member.key)\".", pointer: "/\(member.key)")
      }
      guard !members[..<index].contains(where: { $0.key == member.key }) else {
        throw Problem.malformed("The field stands twice.", pointer: "/\(member.key)")
      }
    }
    let fields = Fields(members: members)
    guard let payload = fields["payload"] else {
      throw Problem.malformed("The payload is missing.", pointer: "/payload")
    }
    guard case .object = payload else { throw Problem.malformed("The payload must be an object.", pointer: "/payload") }
    notification = PushNotification(json: payload.encoded)
    try takeRecipient(fields)
    if let type = try Self.text(fields, "pushType") {
      guard let type = PushNotification.PushType(name: type) else {
        throw Problem.malformed(
          "There is no push type \"\(type)\": it is one of "
            + PushType.allCases.map(\.rawValue).joined(separator: ", ") + ".", pointer: "/pushType")
      }
      notification.pushType = type
    }
    if let number = try Self.integer(fields, "priority") {
      guard let priority = UInt8(exactly: number).flatMap(PushNotification.Priority.init(rawValue:)) else {
        throw Problem.malformed("The priority must be 1, 5 or 10.", pointer: "/priority")
      }
      notification.priority = priority
    }
    if let number = try Self.integer(fields, "expiration") {
      guard let seconds = UInt32(exactly: number) else {
        throw Problem.malformed("The expiration must be in seconds since 1970, or 0.", pointer: "/expiration")
      }
      notification.expiration = seconds == 0 ? .notStored : .at(Date(timeIntervalSince1970: Double(seconds)))
    }
    notification.collapseID = try Self.text(fields, "collapseId")
    reference = try Self.text(fields, "reference")
    guard reference.map({ $0.unicodeScalars.count <= Self.referenceLimit }) ?? true else {
      throw Problem.malformed("The reference has more than \(Self.referenceLimit) characters.", pointer: "/reference")
    }
  }

  private struct Fields {
    let members: [JSONMember]

    subscript(name: String) -> JSONValue? { members.first { $0.key == name }?.value }
  }

  private mutating func takeRecipient(_ fields: Fields) throws {
    switch (try Self.text(fields, "token"), try Self.text(fields, "deviceId")) {
    case (let text?, nil):
      token = try DeviceToken(registered: text, pointer: "/token")
    case (nil, let text?):
      guard let id = StoredUUID(text) else {
        throw Problem.malformed("The device's id must be as the service made it.", pointer: "/deviceId")
      }
      device = id
    case (nil, nil): throw Problem.malformed("The device's token or deviceId is missing.", pointer: "/token")
    case (_?, _?): throw Problem.malformed("It has a token already.", pointer: "/deviceId")
    }
  }

  private static func text(_ fields: Fields, _ name: String) throws -> String? {
    switch fields[name] {
    case nil, .null?: return nil
    case .string(let text)?: return text
    default: throw Problem.malformed("It must be a string.", pointer: "/\(name)")
    }
  }

  private static func integer(_ fields: Fields, _ name: String) throws -> Int? {
    switch fields[name] {
    case nil, .null?: return nil
    case .number(let text)?:
      if let number = Int(text) { return number }
      fallthrough
    default: throw Problem.malformed("It must be a whole number.", pointer: "/\(name)")
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
