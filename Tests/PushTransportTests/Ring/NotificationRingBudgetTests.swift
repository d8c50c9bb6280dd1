internal import PushTransport
internal import Support
internal import Testing

@Suite("NotificationRing, with a budget")
struct NotificationRingBudgetTests {
  private static let blockCount = 16_384
  private static let least = NotificationRing.blockCountAlwaysAllowed

  private func budget(blocks: Int) -> RingBudget { RingBudget(byteCount: blocks * NotificationRing.blockByteCount) }

  private let token = [UInt8](repeating: 7, count: 32)

  /// Fills the ring as far as possible and sends nothing of it.
  private func fill(_ ring: NotificationRing) {
    while var claim = ring.claim(minimum: 1, maximum: 1024) {
      while unsafe token.withUnsafeBytes({
        unsafe claim.append(
          RingRecord.Header(ordinal: 1, campaign: 1), token: $0, payload: UnsafeRawBufferPointer(start: nil, count: 0))
      }) {}
    }
  }

  private func settleAll(_ ring: NotificationRing) {
    ring.setSent(ring.published)
    ring.settle(through: ring.published)
  }

  /// Fills and sends until the ring stops growing.
  private func grow(_ ring: NotificationRing) {
    for _ in 0..<20 {
      fill(ring)
      settleAll(ring)
    }
  }

  @Test("a ring may hold its share of the budget, at most its own size, and at least what is always allowed")
  func limits() {
    let budget = budget(blocks: 20_000)
    let rings = (0..<6).map { _ in NotificationRing(blockCount: Self.blockCount, budget: budget) }
    grow(rings[0])
    #expect(rings[0].blockCountLimit < Self.blockCount)
    #expect(rings[0].blockCountLimit > Self.blockCount / 2)
    grow(rings[1])
    #expect(rings[0].blockCountLimit == 10_000)
    #expect(rings[1].blockCountLimit == 10_000)
    rings.forEach(grow)
    #expect(rings.allSatisfy { $0.blockCountLimit == Self.least })
    for ring in rings.dropFirst(2) { #expect(ring.becameIdle()) }
    #expect(rings[0].blockCountLimit == 10_000)
    // A ring that no longer exists takes no part, and an optimised build releases it early.
    withExtendedLifetime(rings) {}
  }

  @Test("a ring starts small, grows only while its content is sent, and starts small again after being idle")
  func growth() {
    let ring = NotificationRing(blockCount: Self.blockCount, budget: budget(blocks: 100_000))
    #expect(ring.blockCountLimit == Self.least)
    fill(ring)
    // Nothing is sent: a thousand rings that wait for connections must not take a thousand full
    // shares.
    #expect(ring.published == UInt64(Self.least))
    #expect(ring.blockCountLimit == Self.least)
    ring.setSent(100)
    #expect(ring.blockCountLimit == 2 * Self.least)
    settleAll(ring)
    for _ in 0..<100 {
      guard var claim = ring.claim(minimum: 1, maximum: 1) else { continue }
      #expect(
        unsafe token.withUnsafeBytes {
          unsafe claim.append(
            RingRecord.Header(ordinal: 1, campaign: 1), token: $0, payload: UnsafeRawBufferPointer(start: nil, count: 0)
          )
        })
      claim.publish()
      settleAll(ring)
    }
    #expect(ring.blockCountLimit == 2 * Self.least, "a trickle needs no more")
    grow(ring)
    #expect(ring.blockCountLimit > 3 * Self.least)
    #expect(ring.becameIdle())
    #expect(ring.blockCountLimit == Self.least)
  }

  @Test("a claim counts in the budget at once, before its consumer has looked")
  func claimsCount() {
    let budget = budget(blocks: 24_000)
    let rings = (0..<4).map { _ in NotificationRing(blockCount: Self.blockCount, budget: budget) }
    grow(rings[0])
    #expect(!rings[1].isBusy)
    #expect(rings[0].blockCountLimit > 12_000)
    for ring in rings.dropFirst() { fill(ring) }
    #expect(rings[1].isBusy)
    #expect(rings[0].blockCountLimit == 6_000)
    withExtendedLifetime(rings) {}
  }

  @Test("a ring that is not empty keeps its memory; an empty one accepts claims after returning its memory")
  func idling() {
    let ring = NotificationRing(blockCount: Self.blockCount, budget: budget(blocks: 100_000))
    func submit(_ ordinal: UInt64) -> Bool {
      guard var claim = ring.claim(minimum: 1, maximum: 1) else { return false }
      return unsafe token.withUnsafeBytes {
        unsafe claim.append(
          RingRecord.Header(ordinal: ordinal, campaign: 1), token: $0,
          payload: UnsafeRawBufferPointer(start: nil, count: 0))
      }
    }
    #expect(submit(1))
    #expect(!ring.becameIdle())
    #expect(ring.record(at: 0).ordinal == 1)
    ring.setSent(1)
    ring.settle(through: 1)
    #expect(ring.becameIdle())
    #expect(!ring.isBusy)
    #expect(submit(2))
    #expect(ring.isBusy)
    #expect(ring.published == 2)
    #expect(ring.record(at: 1).ordinal == 2)
  }

  @Test("every record is read as it was written, whatever memory is returned at any time")
  func contents() {
    for seed in UInt64(1)...40 {
      var random = SeededGenerator(seed: seed)
      // Other rings change the share again and again, from hardly anything to everything.
      let budget = budget(blocks: Int.random(in: 4_000...40_000, using: &random))
      let others = (0..<4).map { _ in NotificationRing(blockCount: Self.blockCount, budget: budget) }
      let ring = NotificationRing(blockCount: Self.blockCount, budget: budget)
      var written: UInt64 = 0
      var read: UInt64 = 0
      var position: UInt64 = 0
      var ends: [UInt64] = []
      var problem: String?
      for _ in 0..<200 where problem == nil {
        for other in others {
          if Bool.random(using: &random) {
            _ = other.claim(minimum: 1, maximum: 1)
          } else {
            settleAll(other)
            _ = other.becameIdle()
          }
        }
        if Bool.random(using: &random),
          var claim = ring.claim(minimum: 2, maximum: Int.random(in: 2...3_000, using: &random))
        {
          let limit = ring.blockCountLimit
          while claim.remainingBlockCount >= 2 {
            let size = Int.random(in: 1...100, using: &random)
            let bytes = [UInt8](repeating: UInt8(truncatingIfNeeded: written), count: size)
            let fits = unsafe bytes.withUnsafeBytes {
              unsafe claim.append(
                RingRecord.Header(ordinal: written, campaign: 1), token: $0,
                payload: UnsafeRawBufferPointer(start: nil, count: 0))
            }
            guard fits else { break }
            written += 1
          }
          claim.publish()
          if ring.published - ring.settled > UInt64(max(limit, Self.blockCount - 1024)) {
            problem = "holds \(ring.published - ring.settled)"
          }
        }
        while position < ring.published {
          let record = ring.record(at: position)
          if record.isNotification {
            let value = UInt8(truncatingIfNeeded: read)
            if unsafe record.ordinal != read || !record.token.allSatisfy({ $0 == value }) {
              problem = "record \(read) at \(position) is \(record.ordinal)"
            }
            read += 1
          }
          position += record.blockCount
          ends.append(position)
        }
        ring.setSent(position)
        if let end = ends.randomElement(using: &random), end >= ring.settled {
          ring.settle(through: end)
          ends.removeAll { $0 <= end }
        }
        if ring.settled == ring.published { _ = ring.becameIdle() }
      }
      withExtendedLifetime(others) {}
      #expect(problem == nil, "seed \(seed): \(problem ?? "") \(read) of \(written)")
      #expect(read == written, "seed \(seed): \(problem ?? "") \(read) of \(written)")
      #expect(written > 100, "seed \(seed): \(problem ?? "") \(read) of \(written)")
    }
  }
}
