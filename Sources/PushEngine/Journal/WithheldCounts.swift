internal import PushWire

/// Lines of an audience that could have been sent and were not to be, by outcome.
struct WithheldCounts: Hashable, Sendable {
  /// What of it a record has. Older journals have nothing, or the suppressed ones.
  enum Form {
    case nothing, suppressed, all

    var byteCount: Int {
      switch self {
      case .nothing: 0
      case .suppressed: 4
      case .all: 12
      }
    }
  }

  var suppressed = 0
  var capped = 0
  var holdout = 0

  var isEmpty: Bool { self == WithheldCounts() }

  var form: Form { capped + holdout > 0 ? .all : suppressed > 0 ? .suppressed : .nothing }

  mutating func count(_ outcome: Outcome, _ count: Int) {
    switch outcome {
    case .suppressed: suppressed += count
    case .capped: capped += count
    case .holdout: holdout += count
    default: assertionFailure("\(outcome) is of a notification that was sent, or could not be")
    }
  }

  init() {}

  init(_ form: Form, reading record: inout RecordReader) throws(RecordError) {
    if form != .nothing { suppressed = Int(try record.read(UInt32.self)) }
    if form == .all { (capped, holdout) = (Int(try record.read(UInt32.self)), Int(try record.read(UInt32.self))) }
  }

  func write(to record: inout RecordWriter) {
    if form != .nothing { record.write(UInt32(clamping: suppressed)) }
    if form == .all { for count in [capped, holdout] { record.write(UInt32(clamping: count)) } }
  }
}

extension Account {
  mutating func count(_ withheld: WithheldCounts) {
    suppressed += withheld.suppressed
    capped += withheld.capped
    holdout += withheld.holdout
  }
}
