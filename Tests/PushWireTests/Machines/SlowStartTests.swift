internal import PushWire
internal import Support
internal import Testing

/// The cost of refusals on a lane whose gateway is far away.
@Suite("SlowStart")
struct SlowStartTests {
  /// A campaign over one lane with simulated time.
  private struct Campaign {
    var count: UInt64
    /// One token in this many is refused.
    var oneIn: Int
    var answerTime = Duration.milliseconds(50)
    var dialTime = Duration.milliseconds(50)
    /// How long a frame takes to be sent.
    var frameTime = Duration.microseconds(10)
    var batch: UInt64 = 200
  }

  private struct Cost {
    var sentCount = 0
    var elapsed = Duration.zero
    var floor = Duration.zero
  }

  /// Sends a campaign to a gateway that names refused notifications and discards what follows.
  private func send(_ campaign: Campaign, seed: UInt64) -> Cost? {
    var random = SeededGenerator(seed: seed)
    let refused = Set((0..<campaign.count).filter { _ in Int.random(in: 0..<campaign.oneIn, using: &random) == 0 })
    let lane = LaneDriver(seed: seed) { $0.quiet = .seconds(5) }
    lane.input.published = campaign.count
    lane.input.isDraining = true
    let start = lane.now
    var cost = Cost()
    cost.floor =
      campaign.frameTime * Int(campaign.count) + (campaign.dialTime + campaign.answerTime) * (refused.count + 1)
    var answer: (at: Instant, status: GatewayStatus, identifier: UInt32)?
    for _ in 0..<1_000_000 {
      if let due = answer, due.at <= lane.now {
        lane.respond(due.status, due.identifier)
        lane.close()
        answer = nil
      }
      switch lane.next() {
      case .dial:
        lane.pass(campaign.dialTime)
        lane.beginConnection()
      case .pack(let from, let to):
        let to = min(to, from + campaign.batch)
        lane.pack(to: to)
        lane.pass(campaign.frameTime * Int(to - from))
        cost.sentCount += Int(to - from)
        if answer == nil, let bad = (from..<to).first(where: refused.contains) {
          answer = (lane.now + campaign.answerTime, .invalidToken, ResendWindow.identifier(at: bad))
        }
      case .probe(let identifier):
        lane.beginProbe()
        if answer == nil { answer = (lane.now + campaign.answerTime, .missingDeviceToken, identifier) }
      case .leave: lane.close(.byUs)
      case .wait(let until):
        if lane.settled == campaign.count {
          cost.elapsed = lane.now.since(start)
          return cost
        }
        guard let next = [until, answer?.at].compactMap({ $0 }).min() else { return nil }
        lane.input.now = max(lane.now, next)
      }
    }
    return nil
  }

  @Test(
    "at 50 ms: at most 5 resends per notification, and refusals cost little more than their round trips",
    arguments: [Campaign(count: 60_000, oneIn: 1_000), Campaign(count: 10_000, oneIn: 100)])
  private func cost(_ campaign: Campaign) throws {
    let cost = try average(campaign)
    #expect(cost.resent <= 5, "\(cost.resent) sent again for each")
    #expect(cost.delay < 1.25, "\(cost.delay) of the time that the round trips and the frames take")
  }

  @Test("with a near gateway, resends are hardly more than the notifications")
  func nearby() throws {
    let cost = try average(
      Campaign(
        count: 60_000, oneIn: 1_000, answerTime: .milliseconds(1), dialTime: .milliseconds(2),
        frameTime: .microseconds(1)))
    #expect(cost.resent <= 1.2, "\(cost.resent) sent again for each")
    #expect(cost.delay < 1.5, "\(cost.delay) of the time that the round trips and the frames take")
  }

  private func average(_ campaign: Campaign) throws -> (resent: Double, delay: Double) {
    var sum = Cost()
    let seeds = 1...6 as ClosedRange<UInt64>
    for seed in seeds {
      let cost = try #require(send(campaign, seed: seed), "seed \(seed) does not end")
      sum.sentCount += cost.sentCount
      sum.elapsed += cost.elapsed
      sum.floor += cost.floor
    }
    return (Double(sum.sentCount) / Double(campaign.count * UInt64(seeds.count)) - 1, sum.elapsed / sum.floor)
  }

  @Test("where connections end in refusals, notifications count as done when their answer would have come")
  func progress() throws {
    let lane = LaneDriver { $0.quiet = .seconds(5) }
    lane.input.published = 100
    lane.connect()
    lane.pack(to: 100)
    #expect(lane.progress == 100, "nothing has been refused yet")
    lane.pass(.milliseconds(50))
    lane.respond(.invalidToken, 9)
    lane.close()
    lane.connect()
    lane.pack(to: 60)
    lane.pass(.milliseconds(10))
    lane.pack(to: 100)
    #expect(lane.progress == lane.settled)
    var seen: [UInt64] = []
    for _ in 0..<2 {
      guard case .wait(let until?) = lane.next() else { return #expect(Bool(false), "\(lane.next())") }
      lane.input.now = until
      seen.append(lane.progress)
    }
    #expect(seen == [60, 100])
    #expect(lane.settled == 9)
  }

  @Test("a lane without recent refusals is not slowed down")
  func forgets() {
    let lane = LaneDriver()
    lane.connectAndSend(1_000)
    lane.respond(.invalidToken, 1)
    lane.close()
    for round in 2...40 as ClosedRange<UInt64> {
      lane.input.published = round * 1_000
      lane.connect()
      lane.input.isDraining = true
      var step = lane.sendAll()
      while case .wait(let until?) = step, lane.sent < lane.input.published {
        lane.input.now = until
        step = lane.sendAll()
      }
      lane.respond(.missingDeviceToken, lane.probe())
      lane.close()
    }
    lane.input.published = 1_000_000
    lane.connect()
    #expect(lane.next() == .pack(from: 40_000, to: 302_144), "the whole window at once")
  }
}
