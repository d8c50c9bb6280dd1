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
  private(set) var tokens: [TokenBytes] = []

  package init() {}

  init(_ notifications: [(PreparedNotification, DeviceToken)]) {
    tokens.reserveCapacity(notifications.count)
    for (notification, token) in notifications { append(notification, token.wire) }
  }

  package mutating func append(_ notification: PreparedNotification, _ token: TokenBytes) {
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

  /// The parts that share a run. To be called once: it counts the devices of each notification.
  func grouped() -> [(group: PreparedNotification.Group, parts: [Part])] {
    guard let first = parts.first else { return [] }
    let group = first.notification.group(with: first.range.count)
    if parts.count == 1 { return [(group, parts)] }
    var groups = [group: [first]]
    for part in parts.dropFirst() {
      groups[part.notification.group(with: part.range.count), default: []].append(part)
    }
    return groups.map { ($0.key, $0.value) }
  }
}
