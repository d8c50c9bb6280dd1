package import PushWire

/// Neighbouring notifications of a run as bytes, from which another node can make them again.
///
/// Numbers are in groups of seven bits, the lowest first; texts and tokens come after their length.
package struct SharedNotifications: Sendable {
  /// Why bytes are none.
  package struct Damage: Error {}

  /// What all of a run have in common.
  package let common: [UInt8]
  /// The notifications. Those of neighbouring blocks may be joined.
  package private(set) var bytes: [UInt8] = []

  private enum Flag {
    static let isHTTP2: UInt8 = 1
    static let topic: UInt8 = 2
    static let channel: UInt8 = 4
    static let expiration: UInt8 = 8
    static let priority: UInt8 = 16
    static let identifier: UInt8 = 32
    static let collapseID: UInt8 = 64
  }

  /// - Parameter notifications: of one run, in the order of their lines.
  package init(_ notifications: some Sequence<(PreparedNotification, DeviceToken)>) {
    var (common, last): ([UInt8], PreparedNotification?) = ([], nil)
    var tokens: [TokenBytes] = []
    var bytes: [UInt8] = []
    func finish() {
      guard let last else { return }
      Self.append(last, tokens, to: &bytes)
      tokens.removeAll(keepingCapacity: true)
    }
    for (notification, token) in notifications {
      if last == nil { common = Self.common(notification.group) }
      if last !== notification {
        finish()
        last = notification
      }
      tokens.append(token.wire)
    }
    finish()
    (self.common, self.bytes) = (common, bytes)
  }

  /// Those of a block, in the order of their lines.
  package static func notifications(
    common: [UInt8], _ bytes: [UInt8]
  ) throws(Damage) -> [(PreparedNotification, TokenBytes)] {
    var reader = Reader(rest: common[...])
    let group = try Self.group(&reader)
    guard reader.rest.isEmpty else { throw Damage() }
    reader = Reader(rest: bytes[...])
    var found: [(PreparedNotification, TokenBytes)] = []
    while !reader.rest.isEmpty {
      let (count, payload) = (try reader.number(), Array(try reader.text()))
      let flags = try reader.byte()
      let expiration = flags & Flag.expiration == 0 ? nil : UInt32(truncatingIfNeeded: try reader.number())
      let identifier =
        flags & Flag.identifier == 0 ? nil : APNSIdentifier(high: try reader.number(), low: try reader.number())
      let collapseID = flags & Flag.collapseID == 0 ? nil : String(decoding: try reader.text(), as: UTF8.self)
      let notification = PreparedNotification(
        payload: payload, group: group, collapseID: collapseID, identifier: identifier, expiration: expiration)
      for _ in 0..<count {
        guard let token = TokenBytes(bytes: try reader.text()) else { throw Damage() }
        found.append((notification, token))
      }
    }
    return found
  }

  // MARK: What they have in common

  private static func common(_ group: PreparedNotification.Group) -> [UInt8] {
    var bytes: [UInt8] = []
    let headers = group.headers
    bytes.append(
      (headers == nil ? 0 : Flag.isHTTP2) | (headers?.topic == nil ? 0 : Flag.topic)
        | (headers?.channelIdentifier == nil ? 0 : Flag.channel) | (group.expiration == nil ? 0 : Flag.expiration)
        | (group.priority == nil ? 0 : Flag.priority))
    if let headers {
      bytes.append(text: headers.pushType.rawValue.utf8)
      if let topic = headers.topic { bytes.append(text: topic.utf8) }
      if let channel = headers.channelIdentifier { bytes.append(text: channel.utf8) }
    }
    if let expiration = group.expiration { bytes.append(number: UInt64(expiration)) }
    if let priority = group.priority { bytes.append(priority) }
    return bytes
  }

  private static func group(_ reader: inout Reader) throws(Damage) -> PreparedNotification.Group {
    var group = PreparedNotification.Group()
    let flags = try reader.byte()
    if flags & Flag.isHTTP2 != 0 {
      guard let pushType = PushType(rawValue: String(decoding: try reader.text(), as: UTF8.self)) else {
        throw Damage()
      }
      var headers = ProviderHeaders(topic: nil, pushType: pushType)
      if flags & Flag.topic != 0 { headers.topic = String(decoding: try reader.text(), as: UTF8.self) }
      if flags & Flag.channel != 0 { headers.channelIdentifier = String(decoding: try reader.text(), as: UTF8.self) }
      group.headers = headers
    }
    if flags & Flag.expiration != 0 { group.expiration = UInt32(truncatingIfNeeded: try reader.number()) }
    if flags & Flag.priority != 0 { group.priority = try reader.byte() }
    return group
  }

  // MARK: One for several devices

  private static func append(_ notification: PreparedNotification, _ tokens: [TokenBytes], to bytes: inout [UInt8]) {
    bytes.append(number: UInt64(tokens.count))
    bytes.append(text: notification.payload)
    // Of a run whose notifications share it.
    let expiration = notification.expiration
    bytes.append(
      (expiration == nil ? 0 : Flag.expiration) | (notification.identifier == nil ? 0 : Flag.identifier)
        | (notification.collapseID == nil ? 0 : Flag.collapseID))
    if let expiration { bytes.append(number: UInt64(expiration)) }
    if let identifier = notification.identifier {
      bytes.append(number: identifier.high)
      bytes.append(number: identifier.low)
    }
    if let collapseID = notification.collapseID { bytes.append(text: collapseID.utf8) }
    for token in tokens { bytes.append(text: token.bytes) }
  }

  private struct Reader {
    var rest: ArraySlice<UInt8>

    mutating func byte() throws(Damage) -> UInt8 {
      guard let byte = rest.popFirst() else { throw Damage() }
      return byte
    }

    mutating func number() throws(Damage) -> UInt64 {
      var (number, shift): (UInt64, UInt64) = (0, 0)
      while shift < 64 {
        let byte = try byte()
        number |= UInt64(byte & 0x7F) << shift
        if byte < 0x80 { return number }
        shift += 7
      }
      throw Damage()
    }

    mutating func text() throws(Damage) -> ArraySlice<UInt8> {
      let count = try number()
      guard count <= rest.count else { throw Damage() }
      defer { rest = rest.dropFirst(Int(count)) }
      return rest.prefix(Int(count))
    }
  }
}

extension [UInt8] {
  fileprivate mutating func append(number: UInt64) {
    var rest = number
    while rest > 0x7F {
      append(UInt8(truncatingIfNeeded: rest) | 0x80)
      rest >>= 7
    }
    append(UInt8(rest))
  }

  fileprivate mutating func append(text: some Collection<UInt8>) {
    append(number: UInt64(text.count))
    append(contentsOf: text)
  }
}
