package import PushWire

/// How far a campaign has come in its audience.
package struct AudienceMark: Hashable, Sendable {
  /// Where reading can start again, in bytes: the beginning of a line, at or before everything not
  /// taken in yet.
  package var offset: UInt64
  /// The number of that line, from 1.
  package var line: UInt64

  package init(offset: UInt64, line: UInt64) { (self.offset, self.line) = (offset, line) }
}

/// A campaign as the journal records it: what it sends, and its outcomes so far. It is written
/// whole at its beginning and at each checkpoint. The other records say what happens in between.
package struct JournalledCampaign: Hashable, Sendable {
  package enum Phase: UInt8, Hashable, Sendable {
    /// The audience is not taken in completely, or some notifications have no outcome.
    case open = 0
    /// Every notification has its outcome.
    case ended = 1
  }

  /// Unique in the journal and never used again.
  package var number: UInt64
  /// Campaigns that were begun together share one group number. None is forgotten before all have
  /// ended.
  package var group: UInt64
  /// How many campaigns the group has. A group with missing campaigns was never begun.
  var groupCount = 1
  package var app: String
  package var phase = Phase.open
  /// The number of the campaign's payload, for recipients without their own; see
  /// ``JournalState/payloads``.
  var payload: UInt64
  package var expiration: UInt32?
  package var priority: UInt8?
  /// The headers of a campaign for the provider API. Expiration and priority are the properties
  /// above.
  package var headers: ProviderHeaders?
  /// The seed of its notifications' identifiers.
  package var seed = IdentifierSeed(high: 0, low: 0)
  /// What the program that began the campaign needs to resume it. The engine does not read it.
  package var context: [UInt8]
  package var account = Account()
  /// Where to continue reading.
  package var mark = AudienceMark(offset: 0, line: 1)
  /// Every entry up to this line was taken in, or counted as one that cannot be sent. No later
  /// entry was.
  package internal(set) var readLine: UInt64 = 0
}

extension JournalledCampaign {
  var byteCount: Int {
    8 + 8 + 4 + 4 + app.utf8.count + 1 + 8 + 5 + 1 + (1 + (headers?.byteCount ?? 0)) + 16
      + RecordWriter.byteCount(context) + account.byteCount + 24 + (hasFurtherCounts ? 16 : 0)
  }

  func write(to record: inout RecordWriter) {
    record.write(number)
    record.write(group)
    record.write(UInt32(clamping: groupCount))
    record.write(Array(app.utf8))
    record.write(phase.rawValue)
    record.write(payload)
    record.write(expiration != nil)
    record.write(expiration ?? 0)
    record.write(priority ?? 0)
    record.write(headers != nil)
    headers?.write(to: &record)
    record.write(seed.high)
    record.write(seed.low)
    record.write(context)
    account.write(to: &record)
    for value in [mark.offset, mark.line, readLine] { record.write(value) }
    if hasFurtherCounts { for count in [account.capped, account.holdout] { record.write(UInt64(count)) } }
  }

  /// Outcomes that older journals do not know stand at the end.
  private var hasFurtherCounts: Bool { account.capped + account.holdout > 0 }

  init(reading record: inout RecordReader) throws(RecordError) {
    number = try record.read()
    group = try record.read()
    groupCount = Int(try record.read(UInt32.self))
    app = try record.readString()
    guard let phase = Phase(rawValue: try record.read()) else { throw .outOfRange }
    self.phase = phase
    payload = try record.read()
    let hasExpiration = try record.readFlag()
    let seconds = try record.read(UInt32.self)
    expiration = hasExpiration ? seconds : nil
    let priority = try record.read(UInt8.self)
    self.priority = priority == 0 ? nil : priority
    headers = try record.readFlag() ? ProviderHeaders(reading: &record) : nil
    seed = IdentifierSeed(high: try record.read(), low: try record.read())
    context = try record.readBytes()
    account = try Account(reading: &record)
    mark = AudienceMark(offset: try record.readPlace(), line: try record.readPlace())
    readLine = try record.readPlace()
    if record.remaining > 0 { (account.capped, account.holdout) = (try record.readCount(), try record.readCount()) }
  }
}

// MARK: - Headers

/// Values that every campaign has anyway are not among them.
extension ProviderHeaders {
  fileprivate var texts: [String?] { [topic, collapseIdentifier, channelIdentifier] }

  fileprivate var byteCount: Int {
    4 + pushType.rawValue.utf8.count + texts.reduce(0) { $0 + 1 + ($1.map { 4 + $0.utf8.count } ?? 0) }
  }

  fileprivate func write(to record: inout RecordWriter) {
    record.write(Array(pushType.rawValue.utf8))
    for text in texts {
      record.write(text != nil)
      if let text { record.write(Array(text.utf8)) }
    }
  }

  fileprivate init(reading record: inout RecordReader) throws(RecordError) {
    guard let pushType = PushType(rawValue: try record.readString()) else { throw .outOfRange }
    self.init(topic: nil, pushType: pushType)
    topic = try record.readFlag() ? record.readString() : nil
    collapseIdentifier = try record.readFlag() ? record.readString() : nil
    channelIdentifier = try record.readFlag() ? record.readString() : nil
  }
}

// MARK: - Accounts

extension Account {
  fileprivate static let countsByteCount = 11 * 8

  fileprivate var byteCount: Int { rejected.keys.reduce(Self.countsByteCount + 4) { $0 + $1.codeByteCount + 8 } }

  fileprivate func write(to record: inout RecordWriter) {
    let counts = [
      submitted, confirmed, quiet, suppressed, expired, held, cancelled, unknown, resent, possibleDuplicates,
      possibleCopies,
    ]
    for count in counts { record.write(UInt64(count)) }
    record.write(UInt32(rejected.count))
    for (reason, count) in rejected {
      reason.write(to: &record)
      record.write(UInt64(count))
    }
  }

  fileprivate init(reading record: inout RecordReader) throws(RecordError) {
    self.init()
    submitted = try record.readCount()
    confirmed = try record.readCount()
    quiet = try record.readCount()
    suppressed = try record.readCount()
    expired = try record.readCount()
    held = try record.readCount()
    cancelled = try record.readCount()
    unknown = try record.readCount()
    resent = try record.readCount()
    possibleDuplicates = try record.readCount()
    possibleCopies = try record.readCount()
    for _ in 0..<(try record.read(UInt32.self)) {
      let reason = try Rejection(reading: &record)
      let count = try rejected[reason, default: 0] + record.readCount()
      guard count <= RecordReader.countLimit else { throw .outOfRange }
      rejected[reason] = count
    }
  }
}
