internal import PushTransport
internal import PushWire
internal import Support
internal import Testing

@Suite("NotificationRing, its records")
struct NotificationRingRecordTests {
  @Test(
    "the number of blocks is the header, the token and the payload, rounded up",
    arguments: [(1, 0, 1), (32, 0, 1), (33, 0, 2), (32, 1, 2), (96, 0, 2), (97, 0, 3), (100, 5120, 83)])
  func blockCount(_ token: Int, _ payload: Int, _ blocks: Int) {
    #expect(RingRecord.blockCount(tokenByteCount: token, payloadByteCount: payload) == blocks)
  }

  @Test("a token of every length from 1 to 100 is kept, with and without a payload", arguments: [0, 1, 31, 200, 5120])
  func tokens(_ payload: Int) {
    let ring = NotificationRing(blockCount: 256)
    var random = SeededGenerator(seed: UInt64(payload))
    for length in 1...100 {
      let sample = Sample(
        ordinal: random.next(), campaign: UInt32(truncatingIfNeeded: random.next()), token: random.bytes(length),
        payload: random.bytes(payload))
      let start = ring.published
      #expect(ring.add(sample))
      #expect(ring.samples(from: start) == [sample], "\(length) bytes of token")
      ring.settleEverything()
    }
  }

  @Test("plain notifications that are added together are the same as each for itself", arguments: 1...20)
  func together(count: Int) {
    let ring = NotificationRing(blockCount: 256)
    var random = SeededGenerator(seed: UInt64(count))
    let tokens = random.bytes(32 * count)
    let ordinals = (0..<(2 * count)).map { _ in random.next() }
    #expect(Self.addTwice(tokens, every: 2, of: ordinals, to: ring) == [true, false], "the second time is no room")
    let expected = (0..<count).map { index in
      Sample(ordinal: ordinals[2 * index], campaign: 7, token: Array(tokens[(32 * index)..<(32 * index + 32)]))
    }
    #expect(ring.samples(from: 0) == expected)
    #expect((0..<UInt64(count)).allSatisfy { ring.record(at: $0).mayHaveArrived })
  }

  /// Adds the tokens twice to a claim with room for one time.
  private static func addTwice(
    _ tokens: [UInt8], every: Int, of ordinals: [UInt64], to ring: NotificationRing
  ) -> [Bool] {
    let count = tokens.count / 32
    guard var claim = ring.claim(minimum: 1, maximum: count) else { return [] }
    var added: [Bool] = []
    for _ in 0..<2 {
      unsafe tokens.withUnsafeBytes { tokens in
        unsafe ordinals.withUnsafeBytes { ordinals in
          guard let start = ordinals.baseAddress else { return }
          added.append(
            unsafe claim.append(
              campaign: 7, mayHaveArrived: true, tokens: tokens, ordinals: start, stride: 8 * every))
        }
      }
    }
    return added
  }

  @Test("a payload of every size from 0 to 5120 is kept between its neighbours")
  func payloads() {
    let ring = NotificationRing(blockCount: 256)
    var random = SeededGenerator(seed: 5120)
    let content = random.bytes(5120)
    var failures: [Int] = []
    for size in 0...5120 {
      let sample = Sample(
        ordinal: UInt64(size), token: [UInt8](repeating: 0xAB, count: 32), payload: Array(content.prefix(size)))
      let neighbour = Sample(ordinal: .max, token: [UInt8](repeating: 0xFF, count: 32))
      let start = ring.published
      let added = ring.add(neighbour) && ring.add(sample) && ring.add(neighbour)
      if !added || ring.samples(from: start) != [neighbour, sample, neighbour] { failures.append(size) }
      ring.settleEverything()
    }
    #expect(failures.count == 0, "\(failures.prefix(5))")
  }

  @Test(
    "expiration and priority are kept, also 0 and the largest; none means the campaign's",
    arguments: [
      (nil, nil, true), (0, nil, false), (.max, nil, false), (nil, 5, false), (nil, 10, false),
      (1_700_000_000, 255, false),
    ]
      as [(UInt32?, UInt8?, Bool)])
  func header(_ expiration: UInt32?, _ priority: UInt8?, _ isPlain: Bool) {
    let ring = NotificationRing(blockCount: 256)
    let sample = Sample(ordinal: .max, campaign: .max, expiration: expiration, priority: priority, token: [1, 2, 3])
    #expect(ring.add(sample))
    let record = ring.record(at: 0)
    #expect(Sample(record) == sample)
    #expect(record.isPlain == isPlain)
  }

  @Test(
    "a record keeps its own identifier and collapse identifier, with either or both, and the next record has neither")
  func ownHeaders() {
    let ring = NotificationRing(blockCount: 256)
    var random = SeededGenerator(seed: 64)
    for round in 0..<2_000 {
      var sample = Sample(ordinal: random.next(), token: random.bytes(Int.random(in: 1...100, using: &random)))
      if random.chance(60) { sample.identifier = APNSIdentifier(high: random.next(), low: random.next()) }
      if random.chance(60) { sample.collapse = random.bytes(Int.random(in: 1...64, using: &random)) }
      if random.chance(50) {
        sample.payload = random.bytes(random.chance(10) ? 5120 : Int.random(in: 1...200, using: &random))
      }
      if random.chance(30) { sample.priority = 5 }
      if random.chance(30) { sample.expiration = 7 }
      let start = ring.published
      #expect(ring.add(sample))
      #expect(ring.samples(from: start) == [sample], "round \(round)")
      if let position = ring.samples(from: start).first.map({ _ in ring.published - UInt64(sample.blockCount) }) {
        let record = ring.record(at: position)
        #expect(
          record.isPlain
            == (sample.payload.isEmpty && sample.priority == nil && sample.expiration == nil && sample.collapse.isEmpty
              && sample.identifier == nil))
        record.mayHaveArrived = true
        #expect(Sample(record) == sample, "round \(round)")
      }
      ring.settleEverything()
    }
  }

  @Test("a collapse identifier of every length has a code of its own beside the one of an expiration")
  func codes() {
    typealias Headers = RingRecord.OwnHeaders
    var codes: Set<UInt8> = []
    for length in 0...Headers.collapseIdentifierByteCountLimit {
      let code = Headers.code(hasIdentifier: false, collapseIdentifierByteCount: length)
      #expect(Headers.byteCount(code) == length)
      #expect(codes.insert(code).inserted)
    }
    for length in 0...Headers.collapseIdentifierByteCountLimitBesideExpiration {
      let code = Headers.code(hasIdentifier: false, hasExpiration: true, collapseIdentifierByteCount: length)
      #expect(Headers.byteCount(code) == length + Headers.expirationByteCount)
      #expect(codes.insert(code).inserted)
    }
  }

  @Test("own headers give back what was written, with any of the three, up to the longest")
  func everyOwnHeader() {
    for identifier in [nil, APNSIdentifier(high: 1, low: .max)] {
      for expiration in [nil, 0, 1_700_000_000, UInt32.max] {
        let limit = expiration == nil ? 64 : RingRecord.OwnHeaders.collapseIdentifierByteCountLimitBesideExpiration
        #expect(limit >= 62)
        for count in 0...limit {
          let collapse = (0..<count).map { UInt8(truncatingIfNeeded: $0) }
          withOwnHeaders(identifier: identifier, expiration: expiration, collapse: collapse) { headers in
            #expect(headers.identifier == identifier)
            #expect(headers.expiration == expiration)
            #expect(unsafe Array(headers.collapseIdentifier) == collapse)
            #expect(headers.byteCount == (identifier == nil ? 0 : 16) + (expiration == nil ? 0 : 4) + count)
            #expect(headers.byteCount <= RingRecord.OwnHeaders.byteCountLimit)
            #expect(headers.isEmpty == (headers.byteCount == 0))
          }
        }
      }
    }
  }

  @Test("the largest notification has the longest token, the largest payload, and headers of its own")
  func largest() {
    let ring = NotificationRing(blockCount: 256)
    var sample = Sample(
      ordinal: 1, token: [UInt8](repeating: 1, count: 100), payload: [UInt8](repeating: 2, count: 5120))
    sample.identifier = APNSIdentifier(high: 1, low: 2)
    sample.collapse = [UInt8](repeating: 3, count: 64)
    #expect(sample.blockCount == RingRecord.blockCountLimit)
    #expect(ring.add(sample))
    #expect(ring.samples(from: 0) == [sample])
  }

  @Test("ordinals are walked in order, neighbours with the same one together, without padding")
  func ordinals() {
    let ring = NotificationRing(blockCount: 256)
    for ordinal in [7, 7, 7, 3, 9, 9] as [UInt64] {
      #expect(ring.add(Sample(ordinal: ordinal, token: [1], payload: ordinal == 9 ? [1, 2] : [])))
    }
    var claim = ring.claim(minimum: 1, maximum: 5)
    _ = claim.take()
    #expect(ring.add(Sample(ordinal: 9, token: [1])))
    var found: [String] = []
    ring.forEachOrdinal(from: 1, to: ring.published) { found.append("\($0)×\($1)") }
    #expect(found == ["7×2", "3×1", "9×3"])
    ring.forEachOrdinal(from: 4, to: 4) { _, _ in Issue.record("an empty range has an ordinal") }
  }

  @Test("a record with its own payload is not plain")
  func notPlain() {
    let ring = NotificationRing(blockCount: 256)
    #expect(ring.add(Sample(ordinal: 1, token: [1], payload: [0x7B])))
    #expect(!ring.record(at: 0).isPlain)
  }

  @Test(
    "the mark of a possible duplicate is kept, changes nothing else, and is off in later records",
    arguments: [nil, 77] as [UInt32?])
  func mark(_ expiration: UInt32?) {
    let ring = NotificationRing(blockCount: 256)
    let sample = Sample(ordinal: 3, campaign: 9, expiration: expiration, priority: 5, token: [9, 9], payload: [1, 2])
    #expect(ring.add(sample))
    #expect(!ring.record(at: 0).mayHaveArrived)
    ring.record(at: 0).mayHaveArrived = true
    #expect(ring.record(at: 0).mayHaveArrived)
    #expect(Sample(ring.record(at: 0)) == sample)
    ring.record(at: 0).mayHaveArrived = false
    #expect(!ring.record(at: 0).mayHaveArrived)
    #expect(Sample(ring.record(at: 0)) == sample)
    ring.record(at: 0).mayHaveArrived = true
    ring.addPadding(255)
    ring.settleEverything()
    #expect(ring.add(sample))
    #expect(!ring.record(at: 256).mayHaveArrived)
  }

  @Test("walking counts and finds notifications, and skips padding")
  func walk() {
    let ring = NotificationRing(blockCount: 256)
    // 0: padding of 3 · 3: notification of 2 · 5: notification of 1 · 6: padding of 4
    // 10: notification of 3
    ring.addPadding(3)
    _ = (ring.add(Sample(ordinal: 1, blockCount: 2)), ring.add(Sample(ordinal: 2, blockCount: 1)))
    ring.addPadding(4)
    #expect(ring.add(Sample(ordinal: 3, blockCount: 3)))
    for (from, to, count) in [
      (0, 0, 0), (0, 3, 0), (0, 5, 1), (3, 5, 1), (3, 6, 2), (5, 10, 1), (0, 13, 3), (6, 13, 1),
    ] as [(UInt64, UInt64, Int)] {
      #expect(ring.notificationCount(from: from, to: to) == count, "\(from)..<\(to)")
    }
    for (count, from, limit, position) in [
      (0, 0, 13, 0), (1, 0, 13, 5), (2, 0, 13, 6), (3, 0, 13, 13), (9, 0, 13, 13), (1, 6, 13, 13), (9, 0, 5, 5),
    ]
      as [(Int, UInt64, UInt64, UInt64)]
    {
      #expect(ring.position(after: count, from: from, limit: limit) == position, "\(count) after \(from)")
    }
    let ends: [UInt64: UInt64] = [3: 5, 5: 6, 10: 13]
    for position in 0..<13 as Range<UInt64> {
      #expect(ring.end(ofNotificationAt: position, from: 0) == ends[position], "\(position)")
    }
    #expect(ring.end(ofNotificationAt: 10, from: 5) == 13)
  }
}
