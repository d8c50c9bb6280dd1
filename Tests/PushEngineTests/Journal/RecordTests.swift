internal import PushJournal
internal import PushTransport
internal import PushWire
internal import Support
internal import Testing

@testable internal import PushEngine

/// Records of the engine's journal: what is written is read back, and anything else is an error.
@Suite struct RecordTests {
  @Test("every event is read as it was written, and has the size that it announced")
  func events() throws {
    for seed in UInt64(1)...600 {
      var random = SeededGenerator(seed: seed)
      let event = random.event()
      let bytes = try #require(Record.bytes(event), "seed \(seed): \(event)")
      let read = try Record.read(bytes) { try JournalEvent(kind: event.kind.rawValue, reading: &$0) }
      #expect(read == event, "seed \(seed)")
    }
  }

  @Test("the numbers of the kinds never change")
  func kinds() {
    let kinds: [JournalEvent.Kind] = [
      .payload, .campaign, .lane, .enqueue, .laneBegan, .intent, .settled, .returned, .doubted, .resolved, .resent,
      .position, .numbersTaken, .ended, .answered, .withdrawn, .rewound, .positionSuppressed,
    ]
    #expect(kinds.map(\.rawValue) == Array(1...18))
  }

  @Test("every campaign is read as it was written, including the account")
  func campaigns() throws {
    for seed in UInt64(1)...1000 {
      var random = SeededGenerator(seed: seed)
      let campaign = random.campaign()
      let bytes = try #require(Record.bytes(campaign), "seed \(seed): \(campaign)")
      #expect(try Record.read(bytes) { try JournalledCampaign(reading: &$0) } == campaign, "seed \(seed)")
    }
  }

  @Test("every lane is read as it was written")
  func lanes() throws {
    for seed in UInt64(1)...1000 {
      var random = SeededGenerator(seed: seed)
      var lane = JournalledLane(number: random.number(.max), app: random.text())
      for _ in 0..<Int.random(in: 0...20, using: &random) {
        switch Int.random(in: 0..<5, using: &random) {
        case 0: lane.intended(through: random.number(.max))
        case 1: lane.doubted(random.run())
        case 2: lane.rewound(to: random.number(.max))
        case 3: lane.returned(random.run(), isInDoubt: random.chance(50))
        default: lane.took(campaign: random.number(.max), through: random.number(.max))
        }
      }
      let bytes = try #require(Record.bytes(lane), "seed \(seed)")
      let read = try Record.read(bytes) { JournalledLane(try LaneRecord(reading: &$0), runsOf: nil) }
      #expect(
        (read.number, read.app, read.settled, read.intent) == (lane.number, lane.app, lane.settled, lane.intent),
        "seed \(seed)")
      // A dictionary can write its entries in another order, so the sorted bytes are compared.
      #expect(Record.bytes(read)?.sorted() == bytes.sorted(), "seed \(seed)")
    }
  }

  @Test("an enqueue record is read with its tokens, payloads and lines, of any lengths and in any order")
  func enqueues() throws {
    var flags: Set<UInt8> = []
    for seed in UInt64(1)...600 {
      var random = SeededGenerator(seed: seed)
      let notifications = random.notifications()
      let source = TestSource(notifications: notifications)
      let start = UInt64.random(in: 0...(1 << 61), using: &random)
      let blockCount = notifications.map(\.blockCount).reduce(0, +)
      #expect(source.shape.blockCount == blockCount, "seed \(seed)")
      #expect(source.shape.count == notifications.count, "seed \(seed)")
      let run = JournalledRun(lane: 3, range: start..<(start + blockCount), campaign: 4, count: notifications.count)
      let header = random.header(run)
      let bytes = try #require(Record.bytes(header, source), "seed \(seed): \(header)")
      var limit = 0
      source.forEach { limit += EnqueueShape.byteCountLimit(of: $0) }
      #expect(bytes.count <= EnqueueHeader.byteCountLimit + EnqueueShape.fixedByteCount + limit, "seed \(seed)")
      let (readHeader, content) = try Record.read(bytes) { record in
        let header = try EnqueueHeader(reading: &record)
        return (header, try EnqueueContent(reading: &record, run: header.run))
      }
      #expect(readHeader == header, "seed \(seed)")
      #expect(content.notifications == notifications, "seed \(seed)")
      if let first = content.bytes.first { flags.insert(first) }
    }
    // All layouts of the columns have occurred.
    #expect(flags == Set(0..<16))
  }

  @Test("a common campaign with 32-byte tokens in file order costs little more than its tokens")
  func size() throws {
    var random = SeededGenerator(seed: 1)
    let notifications = (1...1024).map { TestNotification(line: UInt64($0), token: random.bytes(32)) }
    let run = JournalledRun(lane: 1, range: 0..<1024, campaign: 1, count: 1024)
    let header = EnqueueHeader(
      run: run, position: AudiencePosition(mark: AudienceMark(offset: 0, line: 1), readLine: 1024, submitted: 1024))
    let bytes = try #require(Record.bytes(header, TestSource(notifications: notifications)))
    #expect(bytes.count <= 1024 * 32 + 128)
  }

  @Test("an enqueue record of a token file's lines says where they begin, in 17 bytes")
  func tokensInFile() throws {
    for seed in UInt64(1)...300 {
      var random = SeededGenerator(seed: seed)
      let lines = random.tokenLines()
      let start = random.number(1 << 61)
      let run = JournalledRun(
        lane: 3, range: start..<(start + UInt64(lines.tokens.count)), campaign: 4, count: lines.tokens.count)
      let header = random.header(run)
      let bytes = try #require(lines.bytes(header), "seed \(seed)")
      #expect(bytes.count == header.byteCount + 17)
      let (readHeader, content) = try Record.read(bytes) { record in
        let header = try EnqueueHeader(reading: &record)
        return (header, try EnqueueContent(reading: &record, run: header.run))
      }
      #expect(readHeader == header, "seed \(seed)")
      #expect(content.lacksTokens)
      #expect(content.notifications.map(\.line) == lines.notifications.map(\.line), "seed \(seed)")
      #expect(!content.notifications.contains { !$0.token.isEmpty })
      let whole = try content.withTokens(lines.read)
      #expect(!whole.lacksTokens)
      #expect(whole.notifications == lines.notifications, "seed \(seed)")

      // A piece of it as a record of its own, as when it is written again.
      var entry = JournalledLane.Run(
        run: run, position: JournalPosition(rawValue: 1), isInDoubt: false, content: content)
      let first = Int.random(in: 0..<lines.tokens.count, using: &random)
      let last = Int.random(in: first..<lines.tokens.count, using: &random)
      (entry.start, entry.end) = (start + UInt64(first), start + UInt64(last) + 1)
      let (part, piece) = try #require(entry.part)
      #expect(part.count == last - first + 1)
      #expect(part.range == entry.start..<entry.end)
      #expect(piece.lacksTokens)
      #expect(
        try piece.withTokens(lines.read).notifications == Array(lines.notifications[first...last]), "seed \(seed)")
    }
  }

  @Test("a record without tokens that cannot have been written is an error")
  func hostileTokensInFile() throws {
    var random = SeededGenerator(seed: 1)
    let lines = TokenLines(offset: 1000, firstLine: 7, tokens: (0..<3).map { _ in random.bytes(32) })
    let run = JournalledRun(lane: 3, range: 0..<3, campaign: 4, count: 3)
    let record = try #require(lines.bytes(EnqueueHeader(run: run, position: nil)))
    let content = Array(record.suffix(17))
    func read(_ bytes: [UInt8], _ run: JournalledRun) throws {
      _ = try Record.read(bytes) { try EnqueueContent(reading: &$0, run: run) }
    }
    try read(content, run)
    for flags in UInt8(16)...31 where flags != content[0] {
      #expect(throws: RecordError.outOfRange) { try read([flags] + content.dropFirst(), run) }
    }
    #expect(throws: RecordError.outOfRange) { try read(content.dropLast(), run) }
    #expect(throws: RecordError.outOfRange) { try read(content + [0], run) }
    #expect(throws: RecordError.outOfRange) { try read(content.dropLast() + [0x40], run) }
    for count in [1 << 16, (1 << 16) + 1] {
      let many = JournalledRun(lane: 3, range: 0..<UInt64(count), campaign: 4, count: count)
      if count == 1 << 16 {
        try read(content, many)
      } else {
        #expect(throws: RecordError.outOfRange) { try read(content, many) }
      }
    }
    let other = JournalledRun(lane: 3, range: 0..<4, campaign: 4, count: 3)
    #expect(throws: RecordError.outOfRange) { try read(content, other) }
  }

  @Test("a piece of a run is cut at notifications, wherever the piece begins and ends")
  func recoveredRuns() throws {
    for seed in UInt64(1)...500 {
      var random = SeededGenerator(seed: seed)
      let notifications = random.notifications()
      let start = UInt64.random(in: 0...1000, using: &random)
      var starts: [UInt64] = [start]
      for notification in notifications { starts.append((starts.last ?? 0) + notification.blockCount) }
      let end = starts.last ?? start
      let run = JournalledRun(lane: 3, range: start..<end, campaign: 4, count: notifications.count)
      let bytes = try #require(
        Record.bytes(EnqueueHeader(run: run, position: nil), TestSource(notifications: notifications)))
      let content = try Record.read(bytes) { record in
        _ = try EnqueueHeader(reading: &record)
        return try EnqueueContent(reading: &record, run: run)
      }
      let (first, second) = (
        UInt64.random(in: 0...(end + 5), using: &random), UInt64.random(in: 0...(end + 5), using: &random)
      )
      let range = min(first, second)..<max(first, second)
      // A notification belongs to the piece in which it begins.
      let expected = notifications.indices.filter { range.contains(starts[$0]) }
      let recovered = RecoveredRun(
        lane: 3, campaign: 4, fate: .unknown, range: range, content: content, runStart: start)
      #expect(recovered?.notifications ?? [] == expected.map { notifications[$0] }, "seed \(seed)")
      #expect(recovered?.count ?? 0 == expected.count, "seed \(seed)")
      if let firstIndex = expected.first, let lastIndex = expected.last {
        #expect(recovered?.range == starts[firstIndex]..<starts[lastIndex + 1], "seed \(seed)")
      }
    }
  }
}
