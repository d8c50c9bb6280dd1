internal import PushWire

/// A run of notifications of one campaign in one lane's ring.
struct JournalledRun: Hashable, Sendable {
  static let byteCount = 8 + 16 + 8 + 4

  var lane: UInt64
  var range: Range<UInt64>
  var campaign: UInt64
  var count: Int

  func write(to record: inout RecordWriter) {
    record.write(lane)
    record.write(range)
    record.write(campaign)
    record.write(UInt32(clamping: count))
  }

  init(lane: UInt64, range: Range<UInt64>, campaign: UInt64, count: Int) {
    (self.lane, self.range, self.campaign, self.count) = (lane, range, campaign, count)
  }

  init(reading record: inout RecordReader) throws(RecordError) {
    lane = try record.read()
    range = try record.readRange()
    campaign = try record.read()
    count = Int(try record.read(UInt32.self))
  }
}

/// What happens between two checkpoints, except for ``EnqueueRecord``.
enum JournalEvent: Hashable, Sendable {
  /// A lane of an app. Numbers are unique in the journal and never used again, so a position of its
  /// ring never becomes ambiguous.
  case laneBegan(lane: UInt64, app: String)
  /// Everything in the lane's ring before `through` may be given to TLS once this is durable.
  case intent(lane: UInt64, through: UInt64)
  /// The gateway has discarded everything in the lane's ring from `to` on that the last connection
  /// carried. The intent goes back to `to`. Doubted notifications stay doubted.
  case rewound(lane: UInt64, to: UInt64)
  /// A run at the front of the lane has its outcome.
  case settled(JournalledRun, Outcome)
  /// A run at the front of the lane was not sent, and will be sent when the campaign resumes. In
  /// doubt: an earlier connection may have delivered it.
  case returned(JournalledRun, isInDoubt: Bool)
  /// A run anywhere in the lane has its outcome; notifications before it may have none yet. For
  /// lanes in which every notification gets its own response.
  case answered(JournalledRun, Outcome)
  /// A run anywhere in the lane was not sent, as with `returned`.
  case withdrawn(JournalledRun, isInDoubt: Bool)
  /// `copies` notifications of the run may have arrived and will be sent again. The run's `count`
  /// says how many of them are in doubt for the first time: these become possible duplicates.
  case doubted(JournalledRun, copies: Int)
  /// A run that an earlier process left has its outcome without being sent again.
  case resolved(JournalledRun, Outcome)
  /// `count` frames were sent again.
  case resent(campaign: UInt64, count: Int)
  /// The audience was read up to here, and no entry since the last position could be sent.
  case position(campaign: UInt64, AudiencePosition)
  /// Every number below was used. So none is used again when everything that had one is forgotten.
  case numbersTaken(below: UInt64)
  /// The campaign has its final account.
  case ended(campaign: UInt64)
}

/// How far a campaign's reader has come, as part of what it takes in.
struct AudiencePosition: Hashable, Sendable {
  static let byteCount = 16 + 8 + 8 + 4 * Rejection.atIntake.count

  var mark: AudienceMark
  /// Every entry up to this line has been taken in, or counted as one that cannot be sent.
  var readLine: UInt64
  /// Everything that the campaign has submitted up to here, including rejected lines. A gap shows
  /// what is lost to damage.
  var submitted: Int
  /// Lines since the last position that could not be sent, by reason; each reason is one of
  /// ``Rejection/atIntake``.
  var rejected: [Rejection: Int]
  /// Lines since the last position to which nothing was sent although it could have been. Not
  /// among the bytes of the position: a record says by its kind or a flag whether they follow, so
  /// that the records of older journals stay readable.
  var withheld = WithheldCounts()
  /// It covers entries that got an outcome and are in no count, because an earlier process may have
  /// sent to them. Not among the bytes: it only says what must be durable before.
  var coversUncounted = false

  func write(to record: inout RecordWriter) {
    for value in [mark.offset, mark.line, readLine, UInt64(submitted)] { record.write(value) }
    for reason in Rejection.atIntake { record.write(UInt32(clamping: rejected[reason] ?? 0)) }
  }

  init(mark: AudienceMark, readLine: UInt64, submitted: Int, rejected: [Rejection: Int] = [:]) {
    (self.mark, self.readLine, self.submitted, self.rejected) = (mark, readLine, submitted, rejected)
  }

  init(reading record: inout RecordReader) throws(RecordError) {
    mark = AudienceMark(offset: try record.readPlace(), line: try record.readPlace())
    readLine = try record.readPlace()
    submitted = try record.readCount()
    rejected = [:]
    for reason in Rejection.atIntake {
      let count = Int(try record.read(UInt32.self))
      if count > 0 { rejected[reason] = count }
    }
  }
}

extension JournalEvent {
  /// The kind byte in front of each record. The numbers never change: a new kind is the last one.
  enum Kind: UInt8 {
    case payload = 1
    case campaign, lane, enqueue, laneBegan, intent, settled, returned, doubted, resolved, resent, position
    case numbersTaken, ended, answered, withdrawn, rewound
    /// A position with suppressed lines.
    case positionSuppressed
    /// A position with others to which nothing was sent.
    case positionWithheld
  }

  var kind: Kind {
    switch self {
    case .laneBegan: .laneBegan
    case .intent: .intent
    case .rewound: .rewound
    case .settled: .settled
    case .returned: .returned
    case .doubted: .doubted
    case .resolved: .resolved
    case .resent: .resent
    case .position(_, let position):
      switch position.withheld.form {
      case .nothing: .position
      case .suppressed: .positionSuppressed
      case .all: .positionWithheld
      }
    case .numbersTaken: .numbersTaken
    case .ended: .ended
    case .answered: .answered
    case .withdrawn: .withdrawn
    }
  }

  var byteCount: Int {
    switch self {
    case .laneBegan(_, let app): 8 + 4 + app.utf8.count
    case .intent, .rewound: 16
    case .settled(_, let outcome), .answered(_, let outcome), .resolved(_, let outcome):
      JournalledRun.byteCount + outcome.codeByteCount
    case .returned, .withdrawn: JournalledRun.byteCount + 1
    case .doubted: JournalledRun.byteCount + 4
    case .resent: 8 + 4
    case .position(_, let position): 8 + AudiencePosition.byteCount + position.withheld.form.byteCount
    case .numbersTaken, .ended: 8
    }
  }

  func write(to record: inout RecordWriter) {
    switch self {
    case .laneBegan(let lane, let app):
      record.write(lane)
      record.write(Array(app.utf8))
    case .intent(let lane, let through):
      record.write(lane)
      record.write(through)
    case .rewound(let lane, let to):
      record.write(lane)
      record.write(to)
    case .settled(let run, let outcome), .answered(let run, let outcome), .resolved(let run, let outcome):
      run.write(to: &record)
      outcome.write(to: &record)
    case .returned(let run, let isInDoubt), .withdrawn(let run, let isInDoubt):
      run.write(to: &record)
      record.write(isInDoubt)
    case .doubted(let run, let copies):
      run.write(to: &record)
      record.write(UInt32(clamping: copies))
    case .resent(let campaign, let count):
      record.write(campaign)
      record.write(UInt32(clamping: count))
    case .position(let campaign, let position):
      record.write(campaign)
      position.write(to: &record)
      position.withheld.write(to: &record)
    case .numbersTaken(let number), .ended(let number): record.write(number)
    }
  }

  init(kind: UInt8, reading record: inout RecordReader) throws(RecordError) {
    switch Kind(rawValue: kind) {
    case .laneBegan: self = .laneBegan(lane: try record.read(), app: try record.readString())
    case .intent: self = .intent(lane: try record.read(), through: try record.read())
    case .rewound: self = .rewound(lane: try record.read(), to: try record.read())
    case .settled: self = .settled(try JournalledRun(reading: &record), try Outcome(reading: &record))
    case .returned: self = .returned(try JournalledRun(reading: &record), isInDoubt: try record.readFlag())
    case .answered: self = .answered(try JournalledRun(reading: &record), try Outcome(reading: &record))
    case .withdrawn: self = .withdrawn(try JournalledRun(reading: &record), isInDoubt: try record.readFlag())
    case .doubted: self = .doubted(try JournalledRun(reading: &record), copies: Int(try record.read(UInt32.self)))
    case .resolved: self = .resolved(try JournalledRun(reading: &record), try Outcome(reading: &record))
    case .resent: self = .resent(campaign: try record.read(), count: Int(try record.read(UInt32.self)))
    case .position: self = .position(campaign: try record.read(), try AudiencePosition(reading: &record))
    case .positionSuppressed: self = try .position(withheld: .suppressed, reading: &record)
    case .positionWithheld: self = try .position(withheld: .all, reading: &record)
    case .ended: self = .ended(campaign: try record.read())
    case .numbersTaken: self = .numbersTaken(below: try record.read())
    case .payload, .campaign, .lane, .enqueue, nil: throw .unknownKind(kind)
    }
  }

  private static func position(
    withheld form: WithheldCounts.Form, reading record: inout RecordReader
  ) throws(RecordError) -> JournalEvent {
    let campaign = try record.read(UInt64.self)
    var position = try AudiencePosition(reading: &record)
    position.withheld = try WithheldCounts(form, reading: &record)
    return .position(campaign: campaign, position)
  }
}
