package import PushWire

/// Notifications that are handed over together, in order. Neighbours with the same content share
/// it: then each costs its token.
package struct IntakeBatch: Sendable {
  struct Part {
    let notification: PreparedNotification
    /// Its devices, by their places.
    var range: Range<Int>
  }

  private(set) var parts: [Part] = []
  private(set) var tokens: [PushWire.DeviceToken] = []

  package init() {}

  init(_ notifications: [(PreparedNotification, DeviceToken)]) {
    tokens.reserveCapacity(notifications.count)
    for (notification, token) in notifications { append(notification, token.wire) }
  }

  package mutating func append(_ notification: PreparedNotification, _ token: PushWire.DeviceToken) {
    let place = tokens.count
    tokens.append(token)
    if let last = parts.indices.last, parts[last].notification === notification {
      parts[last].range = parts[last].range.lowerBound..<(place + 1)
    } else {
      parts.append(Part(notification: notification, range: place..<(place + 1)))
    }
  }

  package mutating func removeAll() {
    parts.removeAll(keepingCapacity: true)
    tokens.removeAll(keepingCapacity: true)
  }

  /// The parts that share a run.
  var groups: [(group: PreparedNotification.Group, parts: [Part])] {
    guard let first = parts.first?.notification else { return [] }
    if parts.allSatisfy({ $0.notification.isGrouped(with: first) }) { return [(first.group, parts)] }
    var groups: [PreparedNotification.Group: [Part]] = [:]
    for part in parts { groups[part.notification.group, default: []].append(part) }
    return groups.map { ($0.key, $0.value) }
  }
}
