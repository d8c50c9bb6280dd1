internal import Carillon
internal import Foundation
internal import PushService
internal import PushStore
internal import PushWire

/// What a request says happens to a Live Activity (Apple: "Starting and updating Live Activities
/// with ActivityKit push notifications").
struct ActivityRequest {
  enum Event: String {
    case update, end
  }

  let notification: PushNotification

  private static let common = [
    "contentState", "timestamp", "staleDate", "relevanceScore", "alert", "sound", "priority", "expiration",
  ]
  /// Devices ignore what is older than the last they got: a time that lies ahead shuts out what is
  /// sent before it comes. Seconds.
  private static let clockTolerance = 60

  /// - Throws: ``Problem`` naming the field that is wrong.
  init(parsing bytes: ArraySlice<UInt8>, _ event: Event, now: StoreInstant) throws {
    let isEnd = event == .end
    let fields = try FieldReader(
      bytes.isEmpty && isEnd ? [] : JSONBody.members(bytes),
      fields: Self.common + (isEnd ? ["dismissalDate"] : []))
    let now = Int(now.milliseconds / 1_000)
    let timestamp = try fields.seconds("timestamp") ?? now
    guard timestamp <= now + Self.clockTolerance else {
      throw fields.wrong("timestamp", "The timestamp lies ahead: devices would ignore what comes before it.")
    }
    var aps = [JSONMember("timestamp", .integer(timestamp)), JSONMember("event", .string(event.rawValue))]
    switch fields["contentState"] {
    case .object(let members)?: aps.append(JSONMember("content-state", .object(members)))
    case nil where isEnd: break
    case nil: throw fields.wrong("contentState", "What the activity shows is missing.")
    default: throw fields.wrong("contentState", "It must be an object.")
    }
    if let stale = try fields.seconds("staleDate") {
      guard stale > timestamp else { throw fields.wrong("staleDate", "It must be later than the timestamp.") }
      aps.append(JSONMember("stale-date", .integer(stale)))
    }
    if isEnd, let dismissal = try fields.seconds("dismissalDate") {
      aps.append(JSONMember("dismissal-date", .integer(dismissal)))
    }
    for (name, key) in [("relevanceScore", "relevance-score"), ("alert", "alert"), ("sound", "sound")] {
      if let value = fields[name] { aps.append(JSONMember(key, value)) }
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
  }
}

extension FieldReader {
  fileprivate func seconds(_ name: String) throws -> Int? {
    guard let number = try integer(name) else { return nil }
    guard UInt32(exactly: number) != nil else { throw wrong(name, "It must be in seconds since 1970.") }
    return number
  }
}
