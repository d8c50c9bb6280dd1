internal import PushTransport
internal import Support
internal import Testing

@Suite("NotificationRing, from one thread")
struct NotificationRingTests {
  private let small = Sample(ordinal: 7, token: Array(1...32))

  @Test("a new ring is empty and wholly free")
  func new() {
    let ring = NotificationRing(blockCount: 256)
    #expect([ring.settled, ring.sent, ring.published] == [0, 0, 0])
    #expect(ring.freeBlockCount == 256)
    #expect(ring.backlogBlockCount == 0)
    #expect(ring.isFullyPublished)
  }

  @Test("reading where no record starts traps")
  func noRecord() async {
    await #expect(processExitsWith: .failure) {
      let ring = NotificationRing(blockCount: 256)
      _ = ring.record(at: 7)
    }
  }

  @Test("a full ring refuses claims, and then accepts as much as was settled")
  func full() {
    let ring = NotificationRing(blockCount: 256)
    for index in 0..<256 { #expect(ring.add(Sample(ordinal: UInt64(index), token: [1]))) }
    #expect(ring.freeBlockCount == 0)
    #expect(ring.backlogBlockCount == 256)
    #expect(!ring.add(small))
    ring.setSent(256)
    #expect(ring.backlogBlockCount == 0)
    #expect(!ring.add(small), "what is sent is still needed for a resend")
    ring.settle(through: 3)
    #expect(ring.freeBlockCount == 3)
    #expect((0..<3).allSatisfy { _ in ring.add(small) })
    #expect(!ring.add(small))
    #expect(ring.published == 259)
    ring.settleEverything()
    #expect(ring.freeBlockCount == 256)
    #expect([ring.settled, ring.sent, ring.published] == [259, 259, 259])
  }

  @Test("a record of any size is kept unchanged at any offset, and never wraps")
  func wrap() {
    let ring = NotificationRing(blockCount: 256)
    var failures: [String] = []
    for blocks in 1...RingRecord.blockCountLimit {
      let sample = Sample(ordinal: UInt64(blocks), blockCount: blocks)
      for offset in 0..<256 {
        ring.settleEverything()
        ring.addPadding((offset - Int(ring.published % 256) + 256) % 256)
        ring.settleEverything()
        let start = ring.published
        let wraps = offset + blocks > 256
        guard ring.add(sample) else {
          failures.append("\(blocks) blocks at \(offset): no room in an empty ring")
          continue
        }
        let at = wraps ? start + UInt64(256 - offset) : start
        var expected = [Placed(position: at, blockCount: UInt64(blocks), isNotification: true)]
        if wraps { expected.insert(Placed(position: start, blockCount: at - start, isNotification: false), at: 0) }
        if ring.layout(from: start) != expected || ring.samples(from: start) != [sample] {
          failures.append("\(blocks) blocks at \(offset)")
        }
      }
    }
    #expect(failures.count == 0, "\(failures.prefix(5))")
  }

  @Test("padding at the wrap becomes readable with its claim and not before, so no wake-up is lost")
  func paddingAtWrap() {
    let ring = NotificationRing(blockCount: 256)
    ring.addPadding(254)
    ring.settleEverything()
    let claim = OpenClaim(ring, minimum: 3, maximum: 10)
    #expect(ring.published == 254)
    #expect(claim?.remainingBlockCount == 10, "the padding is not for the producer's use")
    #expect(ring.freeBlockCount == 244)
    claim?.publish()
    #expect(
      ring.layout(from: 254) == [
        Placed(position: 254, blockCount: 2, isNotification: false),
        Placed(position: 256, blockCount: 10, isNotification: false),
      ])
  }

  @Test("a claim at the wrap needs room for its padding too, and takes no more than there is")
  func roomAtWrap() {
    for (settled, expected) in [(0, nil), (2, nil), (3, 3), (4, 4), (49, 49), (50, 50), (51, 50), (254, 50)]
      as [(UInt64, Int?)]
    {
      // Two blocks are left before the end of the memory, too few for a record of three. They are
      // free, and become padding.
      let ring = NotificationRing(blockCount: 256)
      ring.addPadding(254)
      ring.setSent(254)
      ring.settle(through: settled)
      let claim = ring.claim(minimum: 3, maximum: 50)
      let room = claim?.remainingBlockCount
      #expect(room == expected, "settled through \(settled)")
    }
  }

  @Test("a claim gets at least its minimum and at most its maximum, what is free, and what is left before the wrap")
  func claims() {
    for seed in 1...20 as ClosedRange<UInt64> {
      var random = SeededGenerator(seed: seed)
      let ring = NotificationRing(blockCount: 256)
      for step in 0..<500 {
        let minimum = Int.random(in: 1...RingRecord.blockCountLimit, using: &random)
        let maximum = minimum + Int.random(in: 0...300, using: &random)
        let free = 256 - Int(ring.published - ring.settled)
        let rest = 256 - Int(ring.published % 256)
        let padding = rest < minimum ? rest : 0
        let expected: Int? = free < padding + minimum ? nil : min(maximum, free - padding, padding > 0 ? 256 : rest)
        let claim = OpenClaim(ring, minimum: minimum, maximum: maximum)
        #expect(claim?.remainingBlockCount == expected, "seed \(seed), step \(step): \(minimum)...\(maximum)")
        claim?.publish()
        ring.setSent(ring.published)
        // Everything is padding, so every position is the start of a record.
        if random.chance(50) { ring.settle(through: UInt64.random(in: ring.settled...ring.sent, using: &random)) }
      }
    }
  }

  @Test("the unused rest of a claim becomes padding, whether it is published or dropped")
  func abandonedClaims() {
    let ring = NotificationRing(blockCount: 256)
    let claim = OpenClaim(ring, minimum: 1, maximum: 10)
    let first = Sample(ordinal: 1, blockCount: 2)
    #expect(claim?.remainingBlockCount == 10)
    #expect(claim?.append(first) == true)
    #expect(ring.published == 0, "nothing is readable before its claim is published")
    #expect(!ring.isFullyPublished)
    claim?.publish()
    _ = ring.claim(minimum: 5, maximum: 5)
    #expect(ring.add(small))
    let third = ring.claim(minimum: 1, maximum: 1)
    if let third { third.publish() }
    #expect(
      ring.layout(from: 0) == [
        Placed(position: 0, blockCount: 2, isNotification: true),
        Placed(position: 2, blockCount: 8, isNotification: false),
        Placed(position: 10, blockCount: 5, isNotification: false),
        Placed(position: 15, blockCount: 1, isNotification: true),
        Placed(position: 16, blockCount: 1, isNotification: false),
      ])
    #expect(ring.samples(from: 0) == [first, small])
    #expect(ring.isFullyPublished)
  }

  @Test("a record that does not fit into the rest of a claim is refused and leaves the claim unchanged")
  func tooLargeForClaim() {
    let ring = NotificationRing(blockCount: 256)
    let claim = OpenClaim(ring, minimum: 3, maximum: 3)
    #expect(claim?.append(Sample(ordinal: 1, blockCount: 2)) == true)
    #expect(claim?.append(Sample(ordinal: 2, blockCount: 2)) == false)
    #expect(claim?.remainingBlockCount == 1)
    #expect(claim?.append(Sample(ordinal: 3, blockCount: 1)) == true)
    #expect(claim?.append(small) == false)
    claim?.publish()
    #expect(ring.samples(from: 0).map(\.ordinal) == [1, 3])
  }

  @Test("claims published out of order become readable in order, all of them with the first one")
  func outOfOrder() {
    let ring = NotificationRing(blockCount: 256)
    let claims = (1...3).map { OpenClaim(ring, minimum: $0, maximum: $0) }
    claims[2]?.publish()
    #expect(ring.published == 0)
    claims[0]?.publish()
    #expect(ring.published == 1)
    claims[1]?.publish()
    #expect(ring.published == 6)
  }

  @Test("sent goes back to any record that is not settled, and the same records are read again")
  func rewind() {
    let ring = NotificationRing(blockCount: 256)
    for ordinal in 1...4 as ClosedRange<UInt64> {
      #expect(ring.add(Sample(ordinal: ordinal, blockCount: Int(ordinal))))
    }
    ring.setSent(10)
    ring.settle(through: 1)
    let open = OpenClaim(ring, minimum: 1, maximum: 2)
    ring.setSent(3)
    #expect(ring.samples(from: ring.sent).map(\.ordinal) == [3, 4])
    #expect(ring.backlogBlockCount == 9, "what is claimed counts: it will have to be sent")
    #expect(open?.append(Sample(ordinal: 5, blockCount: 1)) == true)
    open?.publish()
    #expect(ring.samples(from: ring.sent).map(\.ordinal) == [3, 4, 5])
    ring.setSent(1)
    #expect(
      ring.samples(from: ring.sent) == (2...4).map { Sample(ordinal: $0, blockCount: Int($0)) } + [
        Sample(ordinal: 5, blockCount: 1)
      ])
    #expect(ring.freeBlockCount == 256 - 11, "a rewind gives no room back")
    ring.setSent(12)
    #expect(ring.backlogBlockCount == 0)
  }

  @Test("the wake-up is taken once after each sleep, and a new ring sleeps")
  func wakeUp() {
    let ring = NotificationRing(blockCount: 256)
    #expect(ring.takeWakeUp(), "the first producer wakes the consumer")
    #expect(!ring.takeWakeUp())
    #expect(ring.sleep(seen: 0))
    #expect(ring.add(small))
    #expect(ring.takeWakeUp())
    #expect(!ring.takeWakeUp())
    #expect(!ring.sleep(seen: 0), "something was published since")
    #expect(!ring.takeWakeUp(), "a consumer that was not let sleep needs nobody to wake it")
    #expect(ring.sleep(seen: 1))
    #expect(ring.takeWakeUp())
  }
}
