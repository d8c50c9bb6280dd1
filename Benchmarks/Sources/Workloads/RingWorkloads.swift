internal import PushTransport

extension Workload {
  /// From the producers to the consumer, and settled.
  static let ring = [oneProducer, fourProducers]

  private static let blockCount = 32_768
  private static let notificationCount = 16_384
  /// Small, so that the cost of claiming and publishing is visible. A campaign's chunks have a
  /// thousand entries.
  private static let claimCount = 64

  private static let oneProducer = Workload("Ring.oneProducer", notificationCount, "notifications") {
    let tokens = RawMemory(Samples.tokens(claimCount))
    let ring = busyRing(tokens)
    return Iteration {
      produce(notificationCount, into: ring, tokens)
      try consume(ring)
    }
  }

  private static let fourProducers = Workload("Ring.fourProducers", notificationCount, "notifications") {
    let tokens = RawMemory(Samples.tokens(claimCount))
    let ring = busyRing(tokens)
    let team = Team(count: 4) { produce(notificationCount / 4, into: ring, tokens) }
    return Iteration {
      team.run()
      try consume(ring)
    }
  }

  /// A ring that has grown to its full size, as in the middle of a campaign.
  private static func busyRing(_ tokens: RawMemory) -> NotificationRing {
    let ring = NotificationRing(blockCount: blockCount, budget: RingBudget())
    while ring.blockCountLimit < notificationCount {
      produce(ring.blockCountLimit, into: ring, tokens)
      ring.setSent(ring.published)
      ring.settle(through: ring.published)
    }
    return ring
  }

  private static func produce(_ count: Int, into ring: NotificationRing, _ tokens: RawMemory) {
    var ordinal: UInt64 = 0
    while ordinal < count, var claim = ring.claim(minimum: 1, maximum: claimCount) {
      for index in 0..<claim.remainingBlockCount {
        let header = RingRecord.Header(ordinal: ordinal, campaign: 1)
        _ = unsafe claim.append(
          header, token: tokens.piece(index * 32, 32), payload: UnsafeRawBufferPointer(start: nil, count: 0))
        ordinal += 1
      }
      claim.publish()
      _ = ring.takeWakeUp()
    }
  }

  private static func consume(_ ring: NotificationRing) throws {
    let (from, to) = (ring.settled, ring.published)
    var count = 0
    ring.forEachNotification(from: from, to: to) { _, _ in count += 1 }
    ring.setSent(to)
    ring.settle(through: to)
    _ = ring.sleep(seen: to)
    try WorkloadFailure.check(
      count == notificationCount, "\(count) notifications came out of the ring, not \(notificationCount)")
  }
}
