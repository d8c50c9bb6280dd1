/// The first byte of a notification frame (BinaryProtocol.md, "Notification frames").
package enum FrameVersion: UInt8, Sendable, CaseIterable, Codable {
  /// `00` · token length u16 · token · payload length u16 · payload. The gateway never answers it
  /// and can only close the connection.
  case simple = 0
  /// `01` · identifier u32 · expiry u32 · token length u16 · token · payload length u16 · payload.
  case enhanced = 1
  /// `02` · frame length u32 · items, each: id u8 · length u16 · data.
  case framed = 2

  /// The largest payload in bytes that the protocol allows: 256 for commands 0 and 1, 2048 for
  /// command 2. A gateway may accept more (`DecoderLimits`).
  package var payloadLimitDefault: Int {
    switch self {
    case .simple, .enhanced: 256
    case .framed: 2048
    }
  }

  /// Whether a frame of this command has an identifier, so that an error response can name it.
  package var carriesIdentifier: Bool { self != .simple }
}

/// The items of a frame of command 2.
enum FrameItem: UInt8 {
  case token = 1
  case payload = 2
  case identifier = 3
  case expiration = 4
  case priority = 5

  /// id u8 · length u16.
  static let headerByteCount = 3
}
