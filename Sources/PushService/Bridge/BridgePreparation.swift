internal import Carillon
internal import Foundation
internal import PushTransport
internal import PushWire

/// Makes notifications of frames. A payload that follows itself is checked once.
struct BridgePreparation {
  private struct Key: Equatable {
    var payload: [UInt8]
    var expiration: UInt32?
    var priority: UInt8?
  }

  private var last: (key: Key, notification: PreparedNotification)?

  /// - Throws: ``CarillonError/ErrorCode/payload``: the service would refuse it.
  mutating func prepare(
    _ frame: BridgeFrame, _ app: PushApp, _ clock: any ServiceClock
  ) throws(CarillonError) -> PreparedNotification {
    let key = Key(payload: frame.payload, expiration: frame.expiration, priority: frame.priority)
    if let last, last.key == key { return last.notification }
    let prepared = try app.prepare(Self.notification(frame, clock))
    last = (key, prepared)
    return prepared
  }

  private static func notification(_ frame: BridgeFrame, _ clock: any ServiceClock) -> PushNotification {
    var notification = PushNotification(json: frame.payload)
    notification.priority = frame.priority.flatMap(PushNotification.Priority.init(rawValue:))
    notification.expiration = frame.expiration.map {
      $0 == 0
        ? .notStored : .at(Date(timeIntervalSince1970: Double(rounded($0, now: UInt32(clamping: clock.now.seconds)))))
    }
    // The binary protocol has no push types. HTTP/2 demands those of a payload without a text.
    if frame.payload.holds("content-available") || frame.payload.holds("\"mdm\"") {
      switch Purpose(frame.payload) {
      case .wake: (notification.pushType, notification.priority) = (.background, .consideringDevicePower)
      case .deviceManagement: notification.pushType = .deviceManagement
      case .other: break
      }
    }
    return notification
  }

  /// Notifications with different expirations cannot share a run, and each run costs memory. So an
  /// expiration is rounded up, by at most a sixteenth of the time that is left.
  static func rounded(_ expiration: UInt32, now: UInt32) -> UInt32 {
    guard expiration > now, expiration - now >= 32 else { return expiration }
    let left = (expiration - now) / 16
    let step: UInt32 = 1 << UInt32(31 - left.leadingZeroBitCount)
    let (sum, overflow) = expiration.addingReportingOverflow(step - 1)
    return overflow ? expiration : sum / step * step
  }

  private enum Purpose {
    /// The payload only wakes the app.
    case wake
    case deviceManagement
    case other

    init(_ payload: [UInt8]) {
      self = .other
      guard case .object(let members)? = try? JSONValue(parsing: payload[...]) else { return }
      guard case .object(let aps)? = members.last(where: { $0.key == "aps" })?.value else {
        if members.contains(where: { $0.key == "mdm" }) { self = .deviceManagement }
        return
      }
      let shows: Set = ["alert", "badge", "sound", "event"]
      if aps.contains(where: { $0.key == "content-available" }), !aps.contains(where: { shows.contains($0.key) }) {
        self = .wake
      }
    }
  }
}

extension [UInt8] {
  fileprivate func holds(_ text: StaticString) -> Bool {
    let wanted = Array("\(text)".utf8)
    guard count >= wanted.count else { return false }
    return indices.dropLast(wanted.count - 1).contains { self[$0] == wanted[0] && self[$0...].starts(with: wanted) }
  }
}
