internal import PushStore
internal import Support
internal import Testing

@Suite("The ledger of segments")
struct LedgerTests {
  static let kinds: [StoreKind] = [.simulated, .postgreSQL]
  private static let campaign = StoredUUID(high: 5, low: 1)
  private static func at(_ milliseconds: Int64) -> StoreInstant { StoreInstant(milliseconds: milliseconds) }

  /// A store with a running campaign whose part 0 has these members.
  private static func prepared(
    _ place: StorePlace, members: [[Int64]] = [[1, 2, 3], [5, 8], [9]]
  ) async throws -> (any Store, any Ledger) {
    let store = try place.open()
    try await add(campaign, to: store, members: members)
    return (store, try #require(store.ledger))
  }

  /// Shares part 0 and divides it: a segment for each piece.
  private static func divide(_ ledger: any Ledger) async throws {
    try await ledger.share(parts: [0: at(90)], of: campaign, at: at(7))
    let ranges = try await ledger.memberRanges(of: campaign, part: 0, after: 0, limit: 9)
    #expect(try await ledger.divide(ranges, of: campaign, part: 0, after: 0))
  }

  static func add(_ id: StoredUUID, to store: any Store, members: [[Int64]]) async throws {
    var record = StoredCampaign(id: id, app: "news", state: "running", content: Array("{}".utf8), createdAt: at(1))
    record.lastKey = members.last?.last ?? 0
    #expect(try await store.add(record, openLimit: 9))
    try await store.add([0, 1].map { StoredCampaignPart(number: $0, dueAt: at(2), content: []) }, of: id)
    let pieces = members.map { MemberPiece(part: 0, keys: $0) }
    #expect(try await store.cut(id, from: 0, through: record.lastKey ?? 0, adding: pieces))
  }

  static func report(
    _ segment: StoredSegment, number: Int64 = 1, granted: Int = 0, settled: [UInt8] = []
  ) -> SegmentReport {
    SegmentReport(
      id: segment.id, epoch: segment.epoch, number: number, granted: granted, settled: settled, doubted: [],
      account: [1], base: [2])
  }

  @Test("members become segments once, and only shared parts of open campaigns are offered", arguments: kinds)
  func dividing(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let (store, ledger) = try await Self.prepared(place)
    let id = Self.campaign
    let ranges = try await ledger.memberRanges(of: id, part: 0, after: 0, limit: 2)
    #expect(ranges == [MemberRange(keys: 1...3, count: 3), MemberRange(keys: 5...8, count: 2)])
    #expect(try await ledger.memberRanges(of: id, part: 0, after: 8, limit: 9).map(\.count) == [1])
    #expect(try await ledger.sharedParts(of: ["news"], orIn: []).isEmpty)
    #expect(try await ledger.sharedProgress(of: [id])[id] == nil)
    try await ledger.share(parts: [0: Self.at(90)], of: id, at: Self.at(7))
    #expect(try await ledger.divide(ranges, of: id, part: 0, after: 0))
    #expect(try await !ledger.divide(ranges, of: id, part: 0, after: 0))
    #expect(try await !ledger.divide(ranges, of: StoredUUID(high: 9, low: 9), part: 0, after: 0))
    #expect(try await ledger.divide([], of: id, part: 0, after: 8))
    let part = SharedPart(campaign: id, part: 0, state: "running", openUntil: Self.at(90), hasFreeSegments: true)
    #expect(try await ledger.sharedParts(of: ["news", "chat"], orIn: []) == [part])
    #expect(try await ledger.sharedParts(of: ["chat"], orIn: ["paused"]).isEmpty)
    #expect(try await ledger.sharedParts(of: [], orIn: ["paused", "running"]) == [part])
    #expect(try await store.progress(of: id).map(\.begunAt) == [Self.at(7), nil])
    var progress = SharedPartProgress()
    (progress.dividedKey, progress.segmentCount, progress.openUntil) = (8, 2, Self.at(90))
    #expect(try await ledger.sharedProgress(of: [id]) == [id: [0: progress]])
    try await ledger.share(parts: [1: Self.at(90)], of: id, at: Self.at(7))
    #expect(try await ledger.sharedParts(of: ["news"], orIn: []).map(\.openUntil) == [nil, Self.at(90)])
    #expect(try await ledger.sharedParts(of: ["news"], orIn: []).map(\.hasFreeSegments) == [true, false])
    try store.end([EndedCampaignPart(campaign: id, number: 0, account: [], endedAt: Self.at(3))])
    #expect(try await ledger.sharedParts(of: ["news"], orIn: []).map(\.part) == [1])
    try store.close()
  }

  @Test("a segment has one owner, and who takes it over knows what the one before could send", arguments: kinds)
  func owners(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let (store, ledger) = try await Self.prepared(place)
    let id = Self.campaign
    try await Self.divide(ledger)
    let first = try #require(try await store.join("one", replacing: nil))
    let second = try #require(try await store.join("two", replacing: nil))
    #expect(try await ledger.claimSegments(of: id, part: 0, limit: 1, by: 99, known: []).isEmpty)
    let claimed = try await ledger.claimSegments(of: id, part: 0, limit: 2, by: first, known: [])
    #expect(claimed.map(\.id.firstKey) == [1, 5])
    #expect(claimed.map(\.epoch) == [1, 1])
    #expect(claimed.map(\.count) == [3, 2])
    let other = try await ledger.claimSegments(of: id, part: 0, limit: 9, by: second, known: [])
    #expect(other.map(\.id.firstKey) == [9])
    #expect(try await !ledger.sharedParts(of: ["news"], orIn: [])[0].hasFreeSegments)
    var told = Self.report(claimed[0], granted: 2)
    told.settled = [0, 1]
    told.rows = OutcomeRows(after: 0, count: 1, bytes: Array("1\n".utf8))
    let stranger = Self.report(other[0])
    // Only what it owns is written, again and again to the same effect.
    for _ in 0..<2 {
      let written = try ledger.report([told, stranger], by: first)
      #expect(written.keys.map(\.firstKey) == [1])
      #expect(written.values.map(\.state) == ["running"])
      #expect(written.values.map(\.openUntil) == [Self.at(90)])
    }
    #expect(try await ledger.sharedProgress(of: [id])[id]?[0]?.accounts == [[1]])
    // One that comes late changes nothing.
    let later = SegmentReport(
      id: told.id, epoch: 1, number: 2, granted: 3, settled: [0, 2], doubted: [], account: [7], base: [2],
      rows: OutcomeRows(after: 1, count: 1, bytes: Array("2\n".utf8)))
    #expect(try ledger.report([later], by: first).count == 1)
    #expect(try ledger.report([told], by: first).isEmpty)
    #expect(try await ledger.segments(of: first).map(\.settled) == [[0, 2], []])
    // It dies, and the next one has what it left.
    let dead = try #require(try await store.nodes()?.first)
    let before = try await ledger.sharedParts(of: ["news"], orIn: [])
    #expect(before.map(\.hasBegunSegments) == [false])
    #expect(try await store.fence(dead))
    let after = try await ledger.sharedParts(of: ["news"], orIn: [])
    #expect(after.map(\.hasFreeSegments) == [true])
    #expect(after.map(\.hasBegunSegments) == [true])
    let taken = try await ledger.claimSegments(of: id, part: 0, limit: 9, by: second, known: other.map(\.id))
    #expect(taken.map(\.id.firstKey) == [1, 5])
    #expect(taken.map(\.epoch) == [2, 2])
    #expect(taken.map(\.inherited) == [3, 0])
    #expect(taken.map(\.granted) == [3, 0])
    #expect(taken[0].settled == [0, 2])
    #expect(taken[0].account == [7])
    #expect(taken[0].base == nil)
    #expect(taken[0].rowCount == 0)
    // What the former owner still says counts no more.
    let late = SegmentReport(
      id: claimed[0].id, epoch: 1, number: 9, granted: 3, settled: [], doubted: [], account: [], base: [])
    #expect(try ledger.report([late], by: first).isEmpty)
    var rest = Self.report(taken[0], granted: 3)
    rest.rows = OutcomeRows(after: 0, count: 1, bytes: Array("3\n".utf8))
    rest.isSettled = true
    #expect(try ledger.report([rest], by: second).count == 1)
    #expect(try await ledger.segments(of: second).map(\.id.firstKey) == [5, 9])
    #expect(try await ledger.sharedProgress(of: [id])[id]?[0]?.settledSegmentCount == 1)
    // The answer may have been lost. Nothing else of it is written any more.
    #expect(try ledger.report([rest], by: second).count == 1)
    for number in [1, 2] as [Int64] {
      let stale = Self.report(taken[0], number: number, granted: 3, settled: [7])
      #expect(try ledger.report([stale], by: second).isEmpty)
    }
    #expect(try await ledger.sharedProgress(of: [id])[id]?[0]?.settledSegmentCount == 1)
    try await Self.check(rows: "1\n2\n3\n", of: id, in: ledger)
    try store.close()
  }

  @Test("what an owner gives back says what nobody has sent, until the next owner reports", arguments: kinds)
  func givingBack(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let (store, ledger) = try await Self.prepared(place)
    let id = Self.campaign
    try await Self.divide(ledger)
    let first = try #require(try await store.join("n1", replacing: nil))
    let second = try #require(try await store.join("n2", replacing: nil))
    func claim(_ node: Int64) async throws -> StoredSegment? {
      try await ledger.claimSegments(of: id, part: 0, limit: 1, by: node, known: []).first
    }
    let claimed = try #require(try await claim(first))
    var last = Self.report(claimed, granted: 3)
    last.isWithdrawn = true
    #expect(try ledger.report([last], by: first).count == 1)
    #expect(try await ledger.segments(of: first).map(\.isWithdrawn) == [true])
    last = Self.report(claimed, number: 2, granted: 3)
    (last.isWithdrawn, last.unsent) = (true, [1, 2])
    #expect(try ledger.report([last], by: first).count == 1)
    try await ledger.release([claimed.id: claimed.epoch], by: first)
    let taken = try #require(try await claim(second))
    #expect(taken.id == claimed.id)
    #expect(taken.unsent == [1, 2])
    #expect(!taken.isWithdrawn)
    #expect(taken.inherited == 3)
    // It dies before it has said anything, so it has sent nothing.
    try await store.leave(second)
    let third = try #require(try await store.join("n3", replacing: nil))
    let again = try #require(try await claim(third))
    #expect(again.unsent == [1, 2])
    #expect(try ledger.report([Self.report(again, granted: 3)], by: third).count == 1)
    #expect(try await ledger.segments(of: third).map(\.unsent) == [[]])
    try store.close()
  }

  @Test(
    "the shares of a limit are never more than it; those of the dead, and of what is not needed, go", arguments: kinds)
  func rates(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    let ledger = try #require(store.ledger)
    let first = try #require(try await store.join("n1", replacing: nil))
    let second = try #require(try await store.join("n2", replacing: nil))
    func ask(_ node: Int64, _ number: Int64, _ shares: [String: Int64]) async throws -> [String: RateShare] {
      try await ledger.exchange(
        shares.map { RateClaim(name: $0.key, limit: 1_000, share: $0.value, demand: 5) }, number: number, by: node)
    }
    #expect(try await ask(first, 1, ["a": 700, "b": 1]) == ["a": RateShare(share: 700), "b": RateShare(share: 1)])
    #expect(try await ask(second, 1, ["a": 700])["a"] == RateShare(share: 300, peers: [.init(share: 700, demand: 5)]))
    #expect(try await ask(first, 2, ["a": 900])["a"]?.share == 700)
    #expect(try await ask(second, 2, ["a": 100])["a"]?.share == 100)
    #expect(try await ask(first, 3, ["a": 900])["a"]?.share == 900)
    // What is not named is not needed.
    #expect(try await ask(second, 3, ["b": 1_000])["b"] == RateShare(share: 1_000, isUsed: true))
    #expect(try await ask(first, 4, ["a": 2_000])["a"]?.share == 1_000)
    try await store.leave(first)
    #expect(try await ask(first, 5, ["a": 10]).isEmpty)
    #expect(try await ask(second, 4, ["a": 1_000])["a"] == RateShare(share: 1_000, isUsed: true))
    // One that comes late undoes nothing.
    #expect(try await ask(second, 2, ["a": 1]).isEmpty)
    #expect(try await ask(second, 5, ["a": 1_000])["a"]?.share == 1_000)
    // What was given up is forgotten soon. Nobody tells the simulated store the time.
    var number: Int64 = 6
    while kind == .postgreSQL, try await ask(second, number, ["a": 1_000])["a"]?.isUsed != false, number < 600 {
      number += 1
      try await Task.sleep(for: .milliseconds(100))
    }
    #expect(number < 600)
    try store.close()
  }

  private static func check(rows: String, of id: StoredUUID, in ledger: any Ledger) async throws {
    for limit in [1, 2, 9] {
      var (cursor, read): (OutcomeRowsCursor?, [UInt8]) = (nil, [])
      while let next = try await ledger.outcomeRows(of: id, after: cursor, limit: limit) {
        read += next.rows
        cursor = next.next
      }
      #expect(String(decoding: read, as: UTF8.self) == rows)
    }
  }

  @Test(
    "what is given back has no owner; a lost answer to a claim is asked for again; the next process goes on",
    arguments: kinds)
  func release(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let (store, ledger) = try await Self.prepared(place)
    let id = Self.campaign
    try await Self.divide(ledger)
    let first = try #require(try await store.join("one", replacing: nil))
    let claimed = try await ledger.claimSegments(of: id, part: 0, limit: 2, by: first, known: [])
    // It knows the first one only.
    let again = try await ledger.claimSegments(of: id, part: 0, limit: 1, by: first, known: [claimed[0].id])
    #expect(again.map(\.id.firstKey) == [5])
    #expect(again.map(\.epoch) == [2])
    let told = Self.report(claimed[0], granted: 3)
    #expect(try ledger.report([told], by: first).count == 1)
    // In another epoch it is another's.
    try await ledger.release([claimed[0].id: 1, again[0].id: 1], by: first)
    #expect(try ledger.report([told], by: first).isEmpty)
    #expect(try await ledger.segments(of: first).map(\.id.firstKey) == [5])
    let next = try #require(try await store.join("one", replacing: first))
    #expect(try await ledger.segments(of: next).map(\.id.firstKey) == [5])
    #expect(try await ledger.segments(of: next).map(\.epoch) == [2])
    #expect(try ledger.report([Self.report(again[0])], by: first).isEmpty)
    #expect(try ledger.report([Self.report(again[0])], by: next).count == 1)
    let taken = try await ledger.claimSegments(of: id, part: 0, limit: 1, by: next, known: again.map(\.id))
    #expect(taken.map(\.id.firstKey) == [1])
    #expect(taken.map(\.inherited) == [3])
    try store.close()
  }

  @Test("one of the nodes that are alive leads", arguments: kinds)
  func leading(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    let first = try #require(try await store.join("one", replacing: nil))
    let second = try #require(try await store.join("two", replacing: nil))
    #expect(try await store.join("two", replacing: nil) == nil)
    #expect(try await !store.lead(99))
    #expect(try await store.lead(first))
    #expect(try await store.lead(first))
    #expect(try await !store.lead(second))
    try await store.leave(first)
    #expect(try await store.beat(of: first, telling: NodeFacts()) == nil)
    #expect(try await !store.lead(first))
    #expect(try await store.lead(second))
    let third = try #require(try await store.join("one", replacing: nil))
    #expect(try await !store.lead(third))
    #expect(third > second)
    try store.close()
  }

  @Test(
    "a node tells of itself, is drained and resumed while it is alive, and forgotten when it is not", arguments: kinds)
  func facts(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    func node(_ name: String) async throws -> StoredNode? { try await store.nodes()?.first { $0.name == name } }
    let first = try #require(try await store.join("one", replacing: nil))
    #expect(try await node("one")?.facts.lease == NodeFacts.usualLease)
    var facts = NodeFacts()
    (facts.version, facts.configuration, facts.address) = ("1.2", "abc", "http://a:1")
    (facts.pendingCount, facts.lease, facts.clockOffset) = (7, .seconds(3), .milliseconds(-1_500))
    #expect(try await store.beat(of: first, telling: facts) != nil)
    #expect(try await node("one")?.facts == facts)
    #expect(try await node("one")?.beat == 1)
    #expect(try await !store.setDraining(true, node: "two"))
    #expect(try await store.setDraining(true, node: "one"))
    #expect(try await store.beat(of: first, telling: facts) != nil)
    #expect(try await node("one")?.isDraining == true)
    #expect(try await store.setDraining(false, node: "one"))
    #expect(try await node("one")?.isDraining == false)
    #expect(try await store.setDraining(true, node: "one"))
    #expect(try await !store.forget(node: "one"))
    // Its next process takes part again, and has told nothing yet.
    let next = try #require(try await store.join("one", replacing: first))
    #expect(try await node("one")?.isDraining == false)
    #expect(try await node("one")?.facts == NodeFacts())
    #expect(try await store.fence(try #require(try await node("one"))))
    #expect(try await node("one")?.isLost == true)
    #expect(try await store.beat(of: next, telling: facts) == nil)
    #expect(try await !store.setDraining(true, node: "one"))
    #expect(try await store.forget(node: "one"))
    #expect(try await !store.forget(node: "one"))
    #expect(try await store.nodes() == [])
    let third = try #require(try await store.join("one", replacing: nil))
    try await store.leave(third)
    #expect(try await node("one")?.isLost == false)
    try store.close()
  }

  @Test(
    "what only the journal of a forgotten node has is unknown, until a process goes on with that journal",
    arguments: kinds)
  func withoutNode(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    let (run, ended) = (StoredRunID(high: 7, low: 1), StoredRunID(high: 7, low: 2))
    var changes = IntakeChanges()
    changes.began = [run, ended].map { (run: $0, app: "news", at: Self.at(1)) }
    changes.accepted = [(run: run, lines: 1...2, confirmation: "quiet")]
    changes.notAccepted = [
      (notification: StoredNotificationID(run: run, line: 4), state: "rejected", detail: "8 Invalid token")
    ]
    changes.ended = [(ended, Self.at(2))]
    try store.write(changes)
    func outcome(_ line: UInt32) async throws -> StoredOutcome? {
      try await store.notification(StoredNotificationID(run: run, line: line)).outcome
    }
    let lines = [StoredLines(run: run, lines: 2...6), StoredLines(run: ended, lines: 1...3)]
    let first = try #require(try await store.join("one", replacing: nil))
    // Another process has the same journal: it goes on with all of it.
    let second = try #require(try await store.join("two", replacing: nil))
    try await store.leave(first)
    #expect(try await store.forget(node: "one"))
    #expect(try await outcome(3) == nil)
    try await store.leave(second)
    #expect(try await store.forget(node: "two"))
    #expect(try await outcome(3) == .withoutNode(app: "news"))
    #expect(try await outcome(2)?.state == "accepted")
    #expect(try await outcome(4)?.state == "rejected")
    var counts = OutcomeCounts()
    (counts.accepted, counts.others) = (["quiet": 1], ["rejected": ["8 Invalid token": 1]])
    counts.add(3, of: .withoutNode(app: "news"))
    #expect(try await store.outcomes(of: lines) == counts)
    changes = IntakeChanges()
    changes.began = [(run: run, app: "news", at: Self.at(3))]
    try store.write(changes)
    #expect(try await outcome(3) == nil)
    #expect(try await store.outcomes(of: lines).total == 2)
    try store.close()
  }

  @Test("bytes of an upload come with its progress, or not at all, and replace what was there", arguments: kinds)
  func uploads(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    let ledger = try #require(store.ledger)
    let id = Self.campaign
    let record = StoredCampaign(id: id, app: "news", state: "draft", content: Array("{}".utf8), createdAt: Self.at(1))
    #expect(try await store.add(record, openLimit: 9))
    func add(_ pieces: [AudiencePiece], byteCount: Int64, from version: Int64) async throws -> Bool {
      var changed = try #require(try await store.campaign(id))
      changed.upload.byteCount = byteCount
      return try await ledger.update(changed, from: version, adding: pieces)
    }
    func bytes() async throws -> [UInt8] {
      var bytes: [UInt8] = []
      for piece in try await ledger.audiencePieces(of: id) {
        #expect(piece.start == Int64(bytes.count))
        bytes += try await ledger.bytes(of: piece, of: id) ?? []
      }
      return bytes
    }
    let first = AudiencePiece(start: 0, id: 1, bytes: [1, 2, 3])
    let second = AudiencePiece(start: 3, id: .max, bytes: [4])
    #expect(try await add([first, second], byteCount: 4, from: 1))
    #expect(try await bytes() == [1, 2, 3, 4])
    let other = AudiencePiece(start: 3, id: 3, bytes: [7, 7])
    #expect(try await !add([other], byteCount: 5, from: 1), "somebody else was quicker")
    #expect(try await bytes() == [1, 2, 3, 4])
    #expect(try await add([other], byteCount: 5, from: 2))
    #expect(try await bytes() == [1, 2, 3, 7, 7])
    #expect(try await ledger.bytes(of: second.head, of: id) == nil)
    // A new upload begins, and what was there counts no more.
    #expect(try await add([], byteCount: 0, from: 3))
    #expect(try await bytes() == [])
    #expect(try await add([AudiencePiece(start: 0, id: 4, bytes: [9])], byteCount: 1, from: 4))
    #expect(try await bytes() == [9])
    #expect(try await ledger.audiencePieces(of: StoredUUID(high: 9, low: 9)) == [])
    try store.close()
  }

  @Test("rows of who was left out come first in the list, and the first ones replace all", arguments: kinds)
  func leftOut(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let (store, ledger) = try await Self.prepared(place)
    try await Self.divide(ledger)
    let node = try #require(try await store.join("one", replacing: nil))
    let claimed = try await ledger.claimSegments(of: Self.campaign, part: 0, limit: 1, by: node, known: [])
    var report = Self.report(try #require(claimed.first))
    report.rows = OutcomeRows(after: 0, count: 1, bytes: Array("z".utf8))
    #expect(try ledger.report([report], by: node).count == 1)
    for (number, rows) in [(1, "a"), (2, "b"), (1, "c"), (2, "d"), (2, "e")] {
      try await ledger.list(leftOut: Array(rows.utf8), number: number, of: Self.campaign)
    }
    try await ledger.list(leftOut: [1], number: 1, of: StoredUUID(high: 9, low: 9))
    var (found, cursor): ([UInt8], OutcomeRowsCursor?) = ([], nil)
    while let page = try await ledger.outcomeRows(of: Self.campaign, after: cursor, limit: 1) {
      found += page.rows
      cursor = page.next
    }
    #expect(String(decoding: found, as: UTF8.self) == "cez")
    try store.close()
  }

  @Test("whoever leads can leave it to another node", arguments: kinds)
  func yielding(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    let first = try #require(try await store.join("one", replacing: nil))
    let second = try #require(try await store.join("two", replacing: nil))
    #expect(try await store.lead(first))
    try await store.yield(second)
    #expect(try await !store.lead(second))
    try await store.yield(first)
    #expect(try await store.nodes()?.contains(where: \.leads) == false)
    #expect(try await store.lead(second))
    #expect(try await !store.lead(first))
    try store.close()
  }

  @Test(
    "a takeover names the node that was lost, and is counted once, until its campaign is forgotten", arguments: kinds)
  func takeovers(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let (store, ledger) = try await Self.prepared(place)
    let id = Self.campaign
    try await Self.divide(ledger)
    let first = try #require(try await store.join("one", replacing: nil))
    let second = try #require(try await store.join("two", replacing: nil))
    let claimed = try await ledger.claimSegments(of: id, part: 0, limit: 2, by: first, known: [])
    #expect(claimed.map(\.lostOwner) == [nil, nil])
    #expect(try await ledger.nodeWork()["one"]?.segmentCount == 2)
    // One is given back, and the other one is not.
    try await ledger.release([claimed[0].id: claimed[0].epoch], by: first)
    #expect(try await store.fence(try #require(try await store.nodes()?.first)))
    let taken = try await ledger.claimSegments(of: id, part: 0, limit: 2, by: second, known: [])
    #expect(taken.map(\.lostOwner) == [nil, "one"])
    let takeover = SegmentTakeover(
      segment: taken[1].id, epoch: taken[1].epoch, node: "one", at: Self.at(8), possibleDuplicateCount: 5)
    for _ in 0..<2 { try await ledger.note(takeover) }
    let again = SegmentTakeover(
      segment: taken[1].id, epoch: taken[1].epoch + 1, node: "one", at: Self.at(9), possibleDuplicateCount: 2)
    try await ledger.note(again)
    var work = NodeWork()
    (work.takenOverCount, work.possibleDuplicateCount, work.lastTakeover) = (2, 7, Self.at(9))
    var carried = NodeWork()
    carried.segmentCount = 2
    #expect(try await ledger.nodeWork() == ["one": work, "two": carried])
    var record = try #require(try await store.campaign(id))
    record.endedAt = Self.at(5)
    #expect(try await store.update(record, from: record.version))
    #expect(try await store.forgetCampaigns(endedBefore: Self.at(9), limit: 9) == [id])
    try await ledger.note(again)
    #expect(try await ledger.nodeWork() == [:])
    try store.close()
  }

  @Test("a campaign that is forgotten leaves nothing in the ledger", arguments: kinds)
  func forgotten(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let (store, ledger) = try await Self.prepared(place)
    let id = Self.campaign
    try await Self.divide(ledger)
    let node = try #require(try await store.join("one", replacing: nil))
    let claimed = try await ledger.claimSegments(of: id, part: 0, limit: 9, by: node, known: [])
    var told = Self.report(claimed[0])
    told.rows = OutcomeRows(after: 0, count: 1, bytes: [1])
    #expect(try ledger.report([told], by: node).count == 1)
    var record = try #require(try await store.campaign(id))
    record.endedAt = Self.at(5)
    #expect(try await store.update(record, from: record.version))
    #expect(try await ledger.sharedParts(of: ["news"], orIn: []).isEmpty)
    #expect(try await store.forgetCampaigns(endedBefore: Self.at(9), limit: 9) == [id])
    #expect(try await ledger.segments(of: node).isEmpty)
    #expect(try await ledger.outcomeRows(of: id, after: nil, limit: 9)?.rows == nil)
    #expect(try ledger.report([told], by: node).isEmpty)
    try store.close()
  }
}
