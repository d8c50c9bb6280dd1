internal import Carillon
internal import Foundation
internal import PushService
internal import PushStore
internal import PushWire

/// What a request says happens to Live Activities.
struct ActivityRequest {
  let notification: PushNotification
  /// Where activities are started, in hexadecimal.
  let devices: [String]

  private static let common = [
    "contentState", "timestamp", "staleDate", "relevanceScore", "alert", "sound", "priority", "expiration",
  ]
  /// Devices that one request names. For more there are campaigns.
  private static let deviceLimit = 500
  private static let times = ["timestamp", "staleDate", "dismissalDate"]

  /// - Throws: ``Problem`` naming the field that is wrong.
  init(
    parsing bytes: ArraySlice<UInt8>, _ event: ActivityRules.Event, of activity: ActivityName, now: StoreInstant
  ) throws {
    let own: [String] =
      switch event {
      case .start: ["attributes", "channel", "devices"]
      case .update: []
      case .end: ["dismissalDate"]
      }
    let fields = try FieldReader(
      bytes.isEmpty && event == .end ? [] : JSONBody.members(bytes), fields: Self.common + own)
    var aps = [
      JSONMember("timestamp", .integer(try fields.seconds("timestamp") ?? Int(now.milliseconds / 1_000))),
      JSONMember("event", .string(event.rawValue)),
    ]
    for name in Self.times.dropFirst() {
      if let seconds = try fields.seconds(name) { aps.append(JSONMember(Self.key(name), .integer(seconds))) }
    }
    for name in ["contentState", "relevanceScore", "alert", "sound", "attributes"] {
      if let value = fields[name] { aps.append(JSONMember(Self.key(name), value)) }
    }
    if event == .start {
      aps.append(JSONMember("attributes-type", .string(activity.text)))
      // Since iOS 18 a device makes a token for the activity only if it is asked to.
      let channel = try fields.text("channel")
      aps.append(
        channel.map { JSONMember("input-push-channel", .string($0)) } ?? JSONMember("input-push-token", .integer(1)))
    }
    do throws(ActivityRules.Refusal) { try ActivityRules.check(aps, of: activity, sentAt: now) } catch {
      throw fields.wrong(Self.field(error.key), error.sentence)
    }
    var notification = PushNotification(json: JSONValue.object([JSONMember("aps", .object(aps))]).encoded)
    notification.pushType = .liveActivity
    if let number = try fields.integer("priority") {
      guard number == 5 || number == 10 else { throw fields.wrong("priority", "The priority must be 5 or 10.") }
      notification.priority = number == 5 ? .consideringDevicePower : .immediate
    }
    if let seconds = try fields.seconds("expiration") {
      notification.expiration = seconds == 0 ? .notStored : .at(Date(timeIntervalSince1970: Double(seconds)))
    }
    self.notification = notification
    devices = try fields.texts("devices", limit: Self.deviceLimit) ?? []
    if event == .start, devices.isEmpty {
      throw fields.wrong("devices", "The devices on which it starts are missing.")
    }
  }

  /// `content-state` of `contentState`.
  private static func key(_ field: String) -> String {
    field.reduce(into: "") { key, letter in key += letter.isUppercase ? "-" + letter.lowercased() : String(letter) }
  }

  private static func field(_ key: String) -> String {
    let words = key.split(separator: "-")
    return words.dropFirst().reduce(String(words.first ?? "")) { $0 + $1.prefix(1).uppercased() + $1.dropFirst() }
  }
}

extension FieldReader {
  fileprivate func seconds(_ name: String) throws -> Int? {
    guard let number = try integer(name) else { return nil }
    guard UInt32(exactly: number) != nil else { throw wrong(name, "It must be in seconds since 1970.") }
    return number
  }
}
