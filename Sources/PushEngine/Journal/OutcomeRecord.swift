internal import PushWire

/// Outcomes and reasons as the journal writes them: kind u8; for a rejection also its own kind u8
/// and its detail u32. A reason of the service that is not in our table follows, as the number of
/// its bytes u8 and its text.
extension Outcome {
  var codeByteCount: Int {
    if case .rejected(let reason) = self { 1 + reason.codeByteCount } else { 1 + Rejection.leastCodeByteCount }
  }

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
      case .capped: 9
      case .holdout: 10
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
    _ = try record.readRaw(Rejection.leastCodeByteCount)
    switch kind {
    case 1: self = .accepted(.confirmed)
    case 2: self = .accepted(.quiet)
    case 4: self = .suppressed
    case 5: self = .expired
    case 6: self = .held
    case 7: self = .cancelled
    case 8: self = .unknown
    case 9: self = .capped
    case 10: self = .holdout
    default: throw .outOfRange
    }
  }
}

extension Rejection {
  static let leastCodeByteCount = 1 + 4

  var codeByteCount: Int { Self.leastCodeByteCount + (otherReason.map { 1 + $0.utf8.count } ?? 0) }

  private var otherReason: String? {
    switch self {
    case .provider(let refusal), .gaveUp(let refusal): refusal.otherReason
    default: nil
    }
  }

  func write(to record: inout RecordWriter) {
    let (kind, detail): (UInt8, UInt32) =
      switch self {
      case .status(let status): (1, UInt32(status.rawValue))
      case .closedWithoutReason: (2, 0)
      case .malformedToken: (3, 0)
      case .payloadTooLarge: (4, 0)
      case .provider(let refusal): (refusal.otherReason == nil ? 5 : 9, refusal.code)
      case .unusableLine(let defect): (6, UInt32(defect.rawValue))
      case .gaveUp(let refusal): (refusal.otherReason == nil ? 7 : 10, refusal.code)
      case .streamRefused: (8, 0)
      }
    record.write(kind)
    record.write(detail)
    guard var text = otherReason else { return }
    record.write(UInt8(clamping: text.utf8.count))
    text.withUTF8 { unsafe record.write(raw: UnsafeRawBufferPointer($0)) }
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
    case 9: self = .provider(ProviderRefusal(code: detail, otherReason: try Self.readReason(&record)))
    case 10: self = .gaveUp(ProviderRefusal(code: detail, otherReason: try Self.readReason(&record)))
    default: throw .outOfRange
    }
  }

  private static func readReason(_ record: inout RecordReader) throws(RecordError) -> String {
    let count = Int(try record.read(UInt8.self))
    // What we write is printable, but the file may have been written by another program.
    return ProviderRefusal.printable(try record.readRaw(count))
  }
}
