internal import PushWire
internal import Testing

/// Probes, quiet periods, and when the machine asks for either.
@Suite("LaneMachine, confirming")
struct LaneConfirmationTests {
  /// A lane that has sent everything and awaits the answer to its probe.
  private func probing(
    _ count: UInt64 = 10, _ change: (inout LanePolicy) -> Void = { _ in }
  ) -> (lane: LaneDriver, probe: UInt32) {
    let lane = LaneDriver(change)
    lane.input.isDraining = true
    lane.connectAndSend(count)
    return (lane, lane.probe())
  }

  @Test("when nothing more comes, a probe is sent last; its answer confirms everything before it")
  func answered() {
    let (lane, probe) = probing()
    #expect(probe == 0x8000_0000)
    lane.input.published = 20
    #expect(lane.next() == .wait(until: lane.now + .seconds(5)), "the probe is the last frame of its connection")
    lane.respond(.missingDeviceToken, probe)
    #expect(lane.outcome(0..<10) == .accepted(.confirmed))
    #expect(lane.inDoubt.isEmpty)
    #expect(lane.madeProgress)
    lane.close()
    #expect(lane.inDoubt.isEmpty)
    #expect(lane.next() == .dial)
  }

  @Test("each probe has an identifier of its own, in the upper half, where no notification's is")
  func identifiers() {
    let lane = LaneDriver()
    lane.input.isDraining = true
    for round in 1...3 as ClosedRange<UInt64> {
      lane.connectAndSend(round * 10)
      let probe = lane.probe()
      #expect(probe == 0x8000_0000 + UInt32(round - 1))
      lane.respond(.missingDeviceToken, probe)
      lane.close()
    }
    #expect(lane.outcome(0..<30) == .accepted(.confirmed))
  }

  @Test("a probe answered with status 10 under its own identifier confirms as well")
  func answeredByShutdown() {
    let (lane, probe) = probing()
    lane.respond(.shutdown, probe)
    #expect(lane.outcome(0..<10) == .accepted(.confirmed))
  }

  @Test("a refusal that arrives while a probe is in flight settles by the notification that it names")
  func refusedWhileProbing() {
    let (lane, _) = probing()
    lane.respond(.invalidToken, 4)
    #expect(lane.outcome(0..<3) == .accepted(.confirmed))
    #expect(lane.outcomes[3] == .rejected(.status(.invalidToken)))
    #expect(lane.sent == 4)
    #expect(lane.inDoubt.isEmpty)
    lane.close()
    lane.connect()
    #expect(lane.next() == .pack(from: 4, to: 10))
    lane.pack(to: 10)
    #expect(lane.probe() == 0x8000_0001)
  }

  @Test("after status 10 while a probe is in flight, the notifications behind it are resent")
  func shutdownWhileProbing() {
    let (lane, _) = probing()
    lane.respond(.shutdown, 4)
    #expect(lane.outcome(0..<4) == .accepted(.confirmed))
    #expect(lane.sent == 4)
    #expect(lane.outcomes.count == 4)
  }

  @Test("a probe answered with identifier 0 counts as a quiet period, and is the last probe")
  func answeredWithZero() {
    let (lane, _) = probing()
    lane.respond(.missingDeviceToken, 0)
    #expect(lane.outcome(0..<10) == .accepted(.quiet))
    lane.close()
    lane.connectAndSend(20)
    #expect(lane.next() == .wait(until: lane.now + .seconds(5)))
    lane.pass(.seconds(5))
    _ = lane.next()
    #expect(lane.outcome(10..<20) == .accepted(.quiet))
  }

  @Test("identifier 0 with another status is no answer to a probe")
  func zeroOfAnotherStatus() {
    let (lane, _) = probing()
    lane.respond(.invalidToken, 0)
    #expect(lane.outcomes.isEmpty)
    #expect(lane.inDoubt == [0..<10])
  }

  @Test("an unanswered probe: after the quiet period everything is accepted as quiet, and no more probes are sent")
  func notAnswered() {
    let (lane, _) = probing()
    lane.pass(.milliseconds(4_999))
    #expect(lane.next() == .wait(until: lane.now + .milliseconds(1)))
    lane.pass(.milliseconds(1))
    #expect(lane.next() == .leave)
    #expect(lane.next() == .wait(until: nil))
    lane.close(.byUs)
    #expect(lane.outcome(0..<10) == .accepted(.quiet))
    #expect(lane.failures == 0)
    lane.connectAndSend(12)
    #expect(lane.next() == .wait(until: lane.now + .seconds(5)))
  }

  @Test("an error response that arrives during the close after an unanswered probe still counts")
  func refusedWhileLeaving() {
    let (lane, _) = probing()
    lane.pass(.seconds(5))
    #expect(lane.next() == .leave)
    lane.respond(.invalidToken, 4)
    #expect(lane.outcome(0..<3) == .accepted(.confirmed))
    #expect(lane.outcomes[3] == .rejected(.status(.invalidToken)))
    lane.close(.byUs)
    #expect(lane.outcomes.count == 4)
    #expect(lane.sent == 4)
    #expect(lane.inDoubt.isEmpty)
    #expect(!lane.settledTwice)
  }

  @Test("the probe's answer during the close confirms exactly, and probes are still sent later")
  func answeredWhileLeaving() {
    let (lane, probe) = probing()
    lane.pass(.seconds(5))
    #expect(lane.next() == .leave)
    lane.respond(.missingDeviceToken, probe)
    #expect(lane.outcome(0..<10) == .accepted(.confirmed))
    lane.close(.byUs)
    lane.connectAndSend(20)
    lane.probe()
  }

  @Test("other bytes than an error response during the close after an unanswered probe put the window in doubt")
  func garbageWhileLeaving() {
    let (lane, _) = probing()
    lane.pass(.seconds(5))
    #expect(lane.next() == .leave)
    lane.respondGarbage()
    #expect(lane.inDoubt == [0..<10])
    lane.close(.byUs)
    #expect(lane.outcomes.isEmpty)
    #expect(lane.sent == 0)
  }

  @Test("a gateway that has answered probes gets four quiet periods for an answer, and further probes")
  func provenProbes() {
    let (lane, first) = probing()
    lane.respond(.missingDeviceToken, first)
    lane.close()
    lane.connectAndSend(20)
    lane.probe()
    #expect(lane.next() == .wait(until: lane.now + .seconds(20)))
    lane.pass(.seconds(20))
    #expect(lane.next() == .leave)
    lane.close(.byUs)
    #expect(lane.outcome(10..<20) == .accepted(.quiet))
    lane.connectAndSend(30)
    lane.probe()
  }

  @Test("a connection that ends while a probe is in flight leaves the window unknown, as without a probe")
  func closedWhileProbing() {
    let (lane, _) = probing()
    lane.close()
    #expect(lane.outcomes.isEmpty)
    #expect(lane.inDoubt == [0..<10])
  }

  @Test("no probe without identifiers, or when the app wants quiet periods", arguments: [true, false])
  func noProbes(_ hasIdentifiers: Bool) {
    let lane = LaneDriver {
      $0.hasIdentifiers = hasIdentifiers
      $0.confirm = hasIdentifiers ? .quiet : .probe
    }
    lane.input.isDraining = true
    lane.connectAndSend(10)
    #expect(lane.next() == .wait(until: lane.now + .seconds(5)))
  }

  @Test("each run has its own quiet period, and a late answer about a later run still settles exactly")
  func quiet() {
    let lane = LaneDriver { $0.confirm = .quiet }
    lane.connectAndSend(10)
    lane.pass(.seconds(2))
    lane.input.published = 20
    _ = lane.sendAll()
    lane.pass(.milliseconds(2_999))
    #expect(lane.next() == .wait(until: lane.now + .milliseconds(1)))
    #expect(lane.outcomes.isEmpty)
    lane.pass(.milliseconds(1))
    #expect(lane.next() == .wait(until: lane.now + .seconds(2)))
    #expect(lane.outcome(0..<10) == .accepted(.quiet))
    #expect(lane.outcomes.count == 10)
    #expect(lane.madeProgress)
    lane.respond(.invalidToken, 15)
    #expect(lane.outcome(10..<14) == .accepted(.confirmed))
    #expect(lane.outcomes[14] == .rejected(.status(.invalidToken)))
  }

  @Test("a notification is not quiet before the peer's system has its bytes, and from then on needs the whole period")
  func notDelivered() {
    let lane = LaneDriver { $0.confirm = .quiet }
    lane.peerReads = false
    lane.connectAndSend(10)
    for _ in 0..<600 {
      #expect(lane.next() == .wait(until: lane.now + .milliseconds(100)), "looks again now and then")
      lane.pass(.milliseconds(100))
    }
    #expect(lane.outcomes.isEmpty)
    lane.peerReads = true
    #expect(lane.next() == .wait(until: lane.now + .seconds(5)))
    lane.pass(.seconds(5))
    _ = lane.next()
    #expect(lane.outcome(0..<10) == .accepted(.quiet))
  }

  @Test("a peer that stops reading is not quiet: the quiet period begins when it reads again")
  func deaf() {
    let lane = LaneDriver { $0.confirm = .quiet }
    lane.connectAndSend(10)
    lane.peerReads = false
    lane.input.published = 20
    _ = lane.sendAll()
    lane.pass(.seconds(30))
    _ = lane.next()
    #expect(lane.outcomes.isEmpty)
    lane.peerReads = true
    #expect(lane.next() == .wait(until: lane.now + .seconds(5)))
    #expect(lane.outcomes.isEmpty)
  }

  @Test("bytes in flight for a moment do not delay the quiet period of earlier ones")
  func onTheWay() {
    let lane = LaneDriver { $0.confirm = .quiet }
    lane.connectAndSend(10)
    lane.pass(.milliseconds(4_500))
    lane.peerReads = false
    lane.input.published = 20
    _ = lane.sendAll()
    lane.pass(.milliseconds(500))
    _ = lane.next()
    #expect(lane.outcome(0..<10) == .accepted(.quiet))
    #expect(lane.outcomes.count == 10)
  }

  @Test("an expired notification behind a sent one has nothing to deliver and causes no delay")
  func expiredBehind() {
    let lane = LaneDriver { $0.confirm = .quiet }
    lane.input.published = 3
    lane.connect()
    lane.pack(to: 2)
    lane.pack(to: 3, .expired)
    lane.pass(.seconds(5))
    _ = lane.next()
    #expect(lane.outcome(0..<2) == .accepted(.quiet))
    #expect(lane.outcomes[2] == .expired)
  }

  @Test("the same with a probe in flight")
  func blockedProbe() {
    let lane = LaneDriver()
    lane.input.isDraining = true
    lane.peerReads = false
    lane.connectAndSend(10)
    let probe = lane.probe()
    lane.pass(.seconds(60))
    #expect(lane.next() == .wait(until: lane.now + .milliseconds(100)))
    lane.peerReads = true
    #expect(lane.next() == .wait(until: lane.now + .seconds(5)))
    lane.respond(.missingDeviceToken, probe)
    #expect(lane.outcome(0..<10) == .accepted(.confirmed))
  }

  @Test("nothing is sent while the link is not writable")
  func notWritable() {
    let lane = LaneDriver()
    lane.input.published = 10
    lane.connect()
    lane.setWritable(false)
    #expect(lane.next() == .wait(until: lane.now + .milliseconds(100)))
    lane.setWritable(true)
    #expect(lane.next() == .pack(from: 0, to: 10))
  }

  @Test(
    "a peer that reads nothing for two minutes is left, sooner if all is cancelled; its window is in doubt",
    arguments: [120, 20])
  func stalled(seconds: Int) {
    let lane = LaneDriver { $0.confirm = .quiet }
    lane.peerReads = false
    lane.connectAndSend(10)
    lane.input.isCancelled = seconds == 20
    lane.pass(.seconds(seconds - 1))
    _ = lane.next()
    #expect(lane.inDoubt.isEmpty)
    lane.pass(.seconds(1))
    #expect(lane.next() == .leave)
    #expect(lane.inDoubt == [0..<10])
    #expect(lane.outcomes.isEmpty)
    lane.close(.byUs)
    #expect(lane.sent == 0)
    #expect(lane.failures == 1)
  }

  @Test("a gateway that closes on its first probe gets one alone, and then none: no search begins")
  func probeOnTrial() {
    let lane = LaneDriver()
    lane.input.isDraining = true
    lane.connectAndSend(10)
    lane.probe()
    lane.close()
    #expect(lane.inDoubt == [0..<10])
    lane.connect()
    lane.probe()
    lane.close()
    #expect(lane.inDoubt.isEmpty)
    #expect(lane.outcomes.isEmpty)
    lane.connect()
    #expect(lane.next() == .pack(from: 0, to: 10))
    lane.pack(to: 10)
    #expect(lane.next() == .wait(until: lane.now + .seconds(5)))
  }

  @Test("after a lone probe is answered, probes are used again and the search continues")
  func probeConfirmed() {
    let lane = LaneDriver()
    lane.input.isDraining = true
    lane.connectAndSend(10)
    lane.probe()
    lane.close()
    lane.connect()
    lane.respond(.missingDeviceToken, lane.probe())
    lane.close()
    lane.connect()
    #expect(lane.next() == .pack(from: 0, to: 5))
  }

  @Test("malformed bytes cause back-off, although this side closes the connection")
  func garbageIsFailure() {
    let lane = LaneDriver()
    lane.connectAndSend(10)
    lane.respondGarbage()
    lane.close(.byUs)
    #expect(lane.failures == 1)
  }

  @Test("a full window is probed before anything more is sent, and is never exceeded")
  func fullWindow() {
    let lane = LaneDriver { $0.windowCount = 10 }
    lane.input.published = 25
    lane.connect()
    #expect(lane.next() == .pack(from: 0, to: 10))
    lane.pack(to: 4)
    #expect(lane.next() == .pack(from: 4, to: 10))
    lane.pack(to: 10)
    let probe = lane.probe()
    lane.respond(.missingDeviceToken, probe)
    lane.close()
    lane.connect()
    #expect(lane.next() == .pack(from: 10, to: 20))
  }

  @Test("a full window without probes waits for its quiet period, then continues with the free space")
  func fullWindowQuiet() {
    let lane = LaneDriver {
      $0.windowCount = 10
      $0.confirm = .quiet
    }
    lane.input.published = 25
    lane.connect()
    lane.pack(to: 6)
    lane.pass(.seconds(1))
    lane.pack(to: 10)
    #expect(lane.next() == .wait(until: lane.now + .seconds(4)))
    lane.pass(.seconds(4))
    #expect(lane.next() == .pack(from: 10, to: 16))
  }

  @Test("a ring that is nearly full of unsettled blocks is probed, so that producers need not stop")
  func nearlyFullRing() {
    let lane = LaneDriver { $0.ringBlockCount = 400 }
    lane.input.freeBlockCount = 99
    lane.input.published = 300
    lane.connect()
    #expect(lane.next() == .pack(from: 0, to: 300))
    lane.pack(to: 199)
    #expect(lane.next() == .pack(from: 199, to: 300), "most of it is not even sent")
    lane.pack(to: 200)
    lane.input.freeBlockCount = 100
    #expect(lane.next() == .pack(from: 200, to: 300))
    lane.input.freeBlockCount = 99
    lane.probe()
  }
}
