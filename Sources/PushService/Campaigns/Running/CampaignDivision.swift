internal import Carillon
internal import Foundation
internal import HTTPTypes
internal import PushEngine
internal import PushSend
internal import PushStore
internal import PushWire

/// Divides the audience of a local send into parts, one for each instant at which it is sent, and
/// lists the devices that are left out. Each device is in exactly one part, whatever changes in the
/// store later.
struct CampaignDivision: Sendable {
  /// Whom a part is for, as the store keeps it.
  struct Content: Codable, Sendable {
    /// Of an upload: what rows have in the column of time zones.
    var zones: [String] = []
    /// The part has the rows with any other text instead.
    var isRest = false
    /// It has the lines that are no rows.
    var hasMalformed = false
    /// These are left out.
    var isLeftOut = false
    /// The time zones of whom it is for; an empty name is the app's. Nil: of an older version,
    /// which did not keep quiet hours while a part is sent.
    var clocks: [String]?

    var bytes: [UInt8] { (try? JSONEncoder().encode(self)).map(Array.init) ?? [] }

    init() {}

    /// Nil: of a campaign without parts, which has all devices.
    init?(reading bytes: [UInt8]) {
      guard !bytes.isEmpty, let read = try? JSONDecoder().decode(Content.self, from: Data(bytes)) else { return nil }
      self = read
    }
  }

  /// What becomes of the audience.
  struct Parts {
    struct Time: Hashable {
      var instant: Int64
      /// East of UTC. Those who get it at the same instant have the same quiet hours then.
      var offset: Int64
    }

    private(set) var numbers: [Time: Int] = [:]
    var contents: [Content] = []
    var leftOut = CampaignAccount()

    /// The number of the part that is sent at a time.
    mutating func number(at instant: Int64, offset: Int64) -> Int {
      let time = Time(instant: instant, offset: offset)
      if let number = numbers[time] { return number }
      let number = contents.count
      numbers[time] = number
      contents.append(Content())
      return number
    }

    /// The part is for a time zone.
    mutating func note(clock: String, in number: Int) {
      var clocks = contents[number].clocks ?? []
      if !clocks.contains(clock) { clocks.append(clock) }
      contents[number].clocks = clocks
    }
  }

  let spool: CampaignSpool
  let store: any Store
  let schedule: CampaignSchedule
  let now: StoreInstant
  let clock: any ServiceClock
  let outcomes: OutcomeRecorder

  /// More than there are in the world.
  private static let zoneLimit = 2_000
  /// Of one call. What fails once in a while must not begin a long division again each time.
  static let failureLimit = 10

  /// - Throws: ``Problem`` or ``CarillonError``. It can be called again then.
  func parts(of record: StoredCampaign, _ plan: CampaignPlan, _ send: LocalSend) async throws -> [StoredCampaignPart] {
    var places = schedule.times(plan, record.app).localPlan(send, now: now)
    try spool.make(record.id)
    let leftOut = try SpoolFile(path: spool.leftOut(record.id))
    try leftOut.append(ServedList.header + "\n")
    let parts =
      switch plan.source {
      case .devices: try await devices(record, plan, &places, leftOut)
      case .upload: try rows(record, &places, leftOut)
      }
    try leftOut.sync()
    try await list(leftOut: record.id)
    do { try await outcomes.makeDurableElsewhere() } catch { throw StoreError(error) }
    var stored: [StoredCampaignPart] = parts.numbers.map { time, number in
      StoredCampaignPart(
        number: number, dueAt: StoreInstant(milliseconds: time.instant * 1000), content: parts.contents[number].bytes)
    }
    if parts.leftOut.submitted > 0 {
      var content = Content()
      content.isLeftOut = true
      var part = StoredCampaignPart(number: parts.contents.count, dueAt: now, content: content.bytes)
      part.account = AccountJSON.bytes(of: parts.leftOut)
      part.endedAt = now
      stored.append(part)
    }
    return stored
  }

  /// Those who were left out are in a list that every node can read.
  private func list(leftOut id: StoredUUID) async throws {
    guard let ledger = store.ledger, let file = SpoolReading(path: spool.leftOut(id)) else { return }
    var number = 0
    while let rows = try file.next() {
      number += 1
      try await patiently { [number] () throws(StoreError) in
        try await ledger.list(leftOut: rows, number: number, of: id)
      }
    }
  }

  /// Cuts the audience: each device is a member of one part, or left out.
  private func devices(
    _ record: StoredCampaign, _ plan: CampaignPlan, _ places: inout LocalSendPlan, _ leftOut: SpoolFile
  ) async throws -> Parts {
    var parts = Parts()
    var pending: [Int: [Int64]] = [:]
    var seen: Set<String> = []
    // An earlier attempt may have got as far as this, with other instants.
    try await patiently { () throws(StoreError) in try await store.removeMembers(of: record.id) }
    var (key, last): (Int64, Int64) = (0, record.lastKey ?? 0)
    while key < last {
      let stretch = try await patiently { [key] () throws(StoreError) in
        try await store.audienceMembers(
          app: record.app, filter: plan.filter, after: key, through: last, withTimeZones: true)
      }
      var passed: [(key: Int64, reason: LocalSendPlan.Reason)] = []
      for member in stretch.members {
        switch places.place(member.timeZone) {
        case .at(let instant, let offset):
          let number = parts.number(at: instant, offset: offset)
          let zone = member.timeZone ?? ""
          if seen.insert(zone).inserted { parts.note(clock: places.knows(zone) ? zone : "", in: number) }
          pending[number, default: []].append(member.key)
        case .leftOut(let reason): passed.append((member.key, reason))
        }
      }
      try await leaveOut(passed, of: record, plan.filter.activity, &parts, leftOut)
      var pieces: [MemberPiece] = []
      for (part, keys) in pending {
        let isLast = stretch.through == last
        let count = isLast ? keys.count : keys.count / MemberPiece.keyLimit * MemberPiece.keyLimit
        pieces += MemberPiece.pieces(of: Array(keys[..<count]), part: part)
        pending[part] = Array(keys[count...])
      }
      try await cut(record.id, from: key, through: stretch.through, adding: pieces)
      key = stretch.through
    }
    // A campaign without devices ends at once.
    if parts.contents.isEmpty { _ = parts.number(at: now.seconds, offset: 0) }
    return parts
  }

  private func cut(
    _ campaign: StoredUUID, from key: Int64, through end: Int64, adding pieces: [MemberPiece]
  ) async throws {
    var mayBeDone = false
    let isCut = try await patiently { () throws(StoreError) in
      defer { mayBeDone = true }
      if try await store.cut(campaign, from: key, through: end, adding: pieces) { return true }
      guard mayBeDone else { return false }
      return try await store.campaign(campaign)?.cutKey == end
    }
    guard isCut else {
      throw Problem(.conflict, "Cut twice", "The audience of the campaign is being fixed by another attempt.")
    }
  }

  private func patiently<Result: Sendable>(_ body: () async throws(StoreError) -> Result) async throws -> Result {
    try await clock.waiting(failureLimit: Self.failureLimit, body)
  }

  private func leaveOut(
    _ devices: [(key: Int64, reason: LocalSendPlan.Reason)], of record: StoredCampaign, _ activity: ActivityName?,
    _ parts: inout Parts, _ leftOut: SpoolFile
  ) async throws {
    guard !devices.isEmpty else { return }
    let found = try await patiently { () throws(StoreError) in
      try await store.audienceDevices(app: record.app, keys: devices.map(\.key), activity: activity)
    }
    let tokens = Dictionary(found.map { ($0.key, $0.token) }) { first, _ in first }
    for (key, reason) in devices {
      let token = tokens[key].flatMap { try? DeviceToken(bytes: $0) }?.hex ?? ""
      try leaveOut(UInt64(clamping: key), token, of: record, reason, &parts, leftOut)
    }
  }

  /// One gets nothing: that stands in the account, in the campaign's list, and in that of all
  /// outcomes, where an attempt that was not the last one stands, too.
  ///
  /// - Parameter rejection: its token is none.
  private func leaveOut(
    _ line: UInt64, _ token: String, of record: StoredCampaign, _ reason: LocalSendPlan.Reason,
    rejection: String? = nil, _ parts: inout Parts, _ leftOut: SpoolFile
  ) throws {
    parts.leftOut.submitted += 1
    if let rejection {
      parts.leftOut.rejectedByReason[rejection, default: 0] += 1
    } else {
      parts.leftOut.suppressed += 1
    }
    let (kind, detail) = (rejection == nil ? Outcome.Kind.suppressed : .rejected, rejection ?? reason.rawValue)
    try leftOut.append(ServedList.row(line: line, token: token, outcome: kind, reason: detail))
    let entry = OutcomeEntries(line: line, token: token, goneSince: nil, isDoubted: false)
    outcomes.listed(
      OutcomeGroup(
        app: record.app, origin: .campaign(record.id, record.id.seed), state: kind.rawValue, detail: detail,
        at: clock.now, count: entry.count, entries: entry.bytes))
  }

  /// The rows of an upload stay where they are: a part says which time zones it has.
  private func rows(_ record: StoredCampaign, _ places: inout LocalSendPlan, _ leftOut: SpoolFile) throws -> Parts {
    var parts = Parts()
    let reading = try ZoneReading(spool.audience(of: record))
    let missing = places.place(nil)
    /// Of zones that rows of valid tokens name.
    var known: [String: LocalSendPlan.Place] = [:]
    while let zones = try reading.next() {
      for zone in zones {
        // Whatever is no time zone counts as none; so do more of them than there are.
        guard known[zone] == nil, known.count < Self.zoneLimit, TimeZone(identifier: zone) != nil else { continue }
        let place = places.place(zone)
        known[zone] = place
        if case .at(let instant, let offset) = place {
          let number = parts.number(at: instant, offset: offset)
          parts.contents[number].zones.append(zone)
          parts.note(clock: zone, in: number)
        }
      }
    }
    if case .at(let instant, let offset) = missing {
      let number = parts.number(at: instant, offset: offset)
      parts.note(clock: "", in: number)
      let own = Set(parts.contents[number].zones)
      parts.contents[number].zones = known.keys.filter { !own.contains($0) }.sorted()
      parts.contents[number].isRest = true
      parts.contents[number].hasMalformed = true
    } else {
      if parts.contents.isEmpty { _ = parts.number(at: now.seconds, offset: 0) }
      parts.contents[0].hasMalformed = true
    }
    // Whatever no part selects is left out, by the same selection: no row is in neither.
    let passed = known.filter { $0.value == .leftOut(.hasPassed) }.keys
    if !passed.isEmpty { try leaveOut(record, Set(passed), isRest: false, .hasPassed, &parts, leftOut) }
    if case .leftOut(let reason) = missing {
      try leaveOut(record, Set(known.keys), isRest: true, reason, &parts, leftOut)
    }
    return parts
  }

  /// Lists the rows whose zone is one of these, or any other.
  private func leaveOut(
    _ record: StoredCampaign, _ zones: Set<String>, isRest: Bool, _ reason: LocalSendPlan.Reason, _ parts: inout Parts,
    _ leftOut: SpoolFile
  ) throws {
    let file = try AudienceFile(
      spool.audience(of: record),
      selection: { CampaignParts.selection(in: $0, zones, isRest: isRest, hasMalformed: false) })
    let chunk = AudienceChunk(payloadCapacity: 0)
    while try file.fill(chunk) != .end {
      for index in 0..<chunk.count {
        let entry = chunk[index]
        try leaveOut(
          entry.line, chunk.text(of: entry), of: record, reason, rejection: entry.kind.rejection?.description, &parts,
          leftOut)
      }
    }
  }
}
