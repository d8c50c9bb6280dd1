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
  private let isBridge: Bool
  package let isShared: Bool
  private let isOneRun: Bool

  /// - Parameters:
  ///   - isBridge: the bridge takes them in: they share no run with others.
  ///   - isShared: other nodes can take them over: they share no run with others.
  ///   - isOneRun: all become neighbours in one run. They were in one before.
  package init(isBridge: Bool = false, isShared: Bool = false, isOneRun: Bool = false) {
    (self.isBridge, self.isShared, self.isOneRun) = (isBridge, isShared, isOneRun)
  }

  init(_ notifications: [(PreparedNotification, DeviceToken)], isShared: Bool = false) {
    self.init(isShared: isShared)
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

  /// Those at places that ``PushApp/take(_:assigned:answer:)`` has named.
  package func notifications(at places: [Range<Int>]) -> [(PreparedNotification, DeviceToken)] {
    var rest = parts[...]
    return places.flatMap { range -> [(PreparedNotification, DeviceToken)] in
      rest = rest.drop { $0.range.upperBound <= range.lowerBound }
      guard let notification = rest.first?.notification else { return [] }
      return tokens[range].map { (notification, DeviceToken($0)) }
    }
  }

  package mutating func removeAll() {
    parts.removeAll(keepingCapacity: true)
    tokens.removeAll(keepingCapacity: true)
  }

  /// The parts that share a run. To be called once: it counts the devices of each notification.
  func grouped() -> [(group: PreparedNotification.Group, parts: [Part])] {
    guard let first = parts.first else { return [] }
    if isOneRun { return [(group(of: first), parts)] }
    let group = counting(first)
    if parts.count == 1 { return [(group, parts)] }
    var groups = [group: [first]]
    for part in parts.dropFirst() { groups[counting(part), default: []].append(part) }
    return groups.map { ($0.key, $0.value) }
  }

  private func counting(_ part: Part) -> PreparedNotification.Group {
    var group = part.notification.group(with: part.range.count)
    (group.isBridge, group.isShared) = (isBridge, isShared)
    return group
  }

  /// The group of a part that gets no run of its own.
  func group(of part: Part) -> PreparedNotification.Group {
    var group = part.notification.group
    (group.isBridge, group.isShared) = (isBridge, isShared)
    return group
  }
}
