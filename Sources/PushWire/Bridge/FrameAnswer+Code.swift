extension FrameAnswer {
  /// The code of a frame without an answer.
  static let noCode: UInt16 = 0

  /// The answer in two bytes; never ``noCode``.
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
  /// Seconds in four bytes, for values that are kept by the million.
  var wholeSeconds: UInt32 { UInt32(truncatingIfNeeded: nanoseconds / 1_000_000_000) }

  init(wholeSeconds: UInt32) { self.init(nanoseconds: UInt64(wholeSeconds) * 1_000_000_000) }
}
