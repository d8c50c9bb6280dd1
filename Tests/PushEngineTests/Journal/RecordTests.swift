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
