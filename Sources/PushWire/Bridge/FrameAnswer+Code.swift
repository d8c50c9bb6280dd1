extension FrameAnswer {
  /// Of no answer.
  static let noCode: UInt16 = 0

  /// In two bytes, never ``noCode``.
  var code: UInt16 {
    switch self {
    case .accepted: 1
    case .refused(let status): 0x100 | UInt16(status.rawValue)
    }
  }

  init?(code: UInt16) {
    switch code {
    case Self.noCode: return nil
    case 1: self = .accepted
    default: self = .refused(GatewayStatus(rawValue: UInt8(truncatingIfNeeded: code)))
    }
  }
}

extension Instant {
  /// In four bytes, for what is kept by the million.
  var wholeSeconds: UInt32 { UInt32(truncatingIfNeeded: nanoseconds / 1_000_000_000) }

  init(wholeSeconds: UInt32) { self.init(nanoseconds: UInt64(wholeSeconds) * 1_000_000_000) }
}
