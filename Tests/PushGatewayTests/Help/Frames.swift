internal import PushGateway
internal import PushWire
internal import Support

/// Frames written by hand from the protocol's layouts, independent of the engine's encoder.
enum Frames {
  static let payload = Array(#"{"aps":{"alert":"Hello"}}"#.utf8)

  static func simple(_ token: [UInt8] = token(1), _ payload: [UInt8] = payload) -> [UInt8] {
    [0] + u16(token.count) + token + u16(payload.count) + payload
  }

  static func enhanced(_ identifier: UInt32, _ token: [UInt8] = token(1), _ payload: [UInt8] = payload) -> [UInt8] {
    [1] + u32(identifier) + u32(0) + u16(token.count) + token + u16(payload.count) + payload
  }

  static func framed(
    _ identifier: UInt32?, _ token: [UInt8]? = token(1), _ payload: [UInt8]? = payload, more: [UInt8] = []
  ) -> [UInt8] {
    var items: [UInt8] = []
    if let token { items += item(1, token) }
    if let payload { items += item(2, payload) }
    if let identifier { items += item(3, u32(identifier)) }
    items += more
    return [2] + u32(UInt32(items.count)) + items
  }

  /// A frame of any command. Command 0 has no identifier.
  static func frame(
    _ command: FrameVersion, _ identifier: UInt32, _ token: [UInt8] = token(1), _ payload: [UInt8] = payload
  ) -> [UInt8] {
    switch command {
    case .simple: simple(token, payload)
    case .enhanced: enhanced(identifier, token, payload)
    case .framed: framed(identifier, token, payload)
    }
  }

  static func probe(_ command: FrameVersion, _ identifier: UInt32) -> [UInt8] { frame(command, identifier, [], []) }

  static func item(_ id: UInt8, _ data: [UInt8]) -> [UInt8] { [id] + u16(data.count) + data }

  /// 32 bytes that end in the number.
  static func token(_ number: UInt32) -> [UInt8] { Array(repeating: 0xAB, count: 28) + u32(number) }

  static func u16(_ value: Int) -> [UInt8] {
    [UInt8(truncatingIfNeeded: value >> 8), UInt8(truncatingIfNeeded: value)]
  }
  static func u32(_ value: UInt32) -> [UInt8] { u16(Int(value >> 16)) + u16(Int(value & 0xFFFF)) }
}

extension TokenBytes {
  /// The token that ``Frames/token(_:)`` writes.
  static func numbered(_ number: UInt32) -> TokenBytes {
    guard let token = TokenBytes(bytes: Frames.token(number)) else { preconditionFailure("32 bytes are a token") }
    return token
  }
}

extension Array where Element == [UInt8] {
  var joinedBytes: [UInt8] { flatMap { $0 } }
}

extension Array where Element == UInt8 {
  /// Cuts the bytes at random into pieces of up to `limit` bytes.
  func cut(_ limit: Int, using random: inout SeededGenerator) -> [[UInt8]] {
    var pieces: [[UInt8]] = []
    var offset = 0
    while offset < count {
      let end = Swift.min(count, offset + Int.random(in: 1...limit, using: &random))
      pieces.append(Array(self[offset..<end]))
      offset = end
    }
    return pieces
  }
}
