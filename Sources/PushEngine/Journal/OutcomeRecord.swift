internal import PushWire

/// Outcomes and reasons as the journal writes them: kind u8, and of a rejection its own kind u8 and what goes with it u32.
extension Outcome {
  static let codeByteCount = 1 + Rejection.codeByteCount

  func write(to record: inout RecordWriter) {
    let kind: UInt8 =
      switch self {
      case .accepted(.confirmed): 1
      case .accepted(.quiet): 2
      case .rejected: 3
      case .suppressed: 4
      case .expired: 5
      case .held: 6
      case .cancelled: 7
      case .unknown: 8
      }
    record.write(kind)
    if case .rejected(let reason) = self {
      reason.write(to: &record)
    } else {
      record.write(0 as UInt8)
      record.write(0 as UInt32)
    }
  }

  init(reading record: inout RecordReader) throws(RecordError) {
    let kind = try record.read(UInt8.self)
    guard kind != 3 else {
      self = .rejected(try Rejection(reading: &record))
      return
    }
    _ = try unsafe record.readRaw(Rejection.codeByteCount)
    switch kind {
    case 1: self = .accepted(.confirmed)
    case 2: self = .accepted(.quiet)
    case 4: self = .suppressed
    case 5: self = .expired
    case 6: self = .held
    case 7: self = .cancelled
    case 8: self = .unknown
    default: throw .outOfRange
    }
  }
}

extension Rejection {
  static let codeByteCount = 1 + 4

  func write(to record: inout RecordWriter) {
    let (kind, detail): (UInt8, UInt32) =
      switch self {
      case .status(let status): (1, UInt32(status.rawValue))
      case .closedWithoutReason: (2, 0)
      case .malformedToken: (3, 0)
      case .payloadTooLarge: (4, 0)
      case .provider(let refusal): (5, refusal.code)
      case .unusableLine(let defect): (6, UInt32(defect.rawValue))
      case .gaveUp(let refusal): (7, refusal.code)
      case .streamRefused: (8, 0)
      }
    record.write(kind)
    record.write(detail)
  }

  init(reading record: inout RecordReader) throws(RecordError) {
    let kind = try record.read(UInt8.self)
    let detail = try record.read(UInt32.self)
    switch kind {
    case 1:
      guard let status = UInt8(exactly: detail) else { throw .outOfRange }
      self = .status(GatewayStatus(rawValue: status))
    case 2: self = .closedWithoutReason
    case 3: self = .malformedToken
    case 4: self = .payloadTooLarge
    case 5: self = .provider(ProviderRefusal(code: detail))
    case 6:
      guard let raw = UInt8(exactly: detail), let defect = LineDefect(rawValue: raw) else { throw .outOfRange }
      self = .unusableLine(defect)
    case 7: self = .gaveUp(ProviderRefusal(code: detail))
    case 8: self = .streamRefused
    default: throw .outOfRange
    }
  }
}
