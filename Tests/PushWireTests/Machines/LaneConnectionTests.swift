internal import PushWire
internal import Testing

@Suite("LaneMachine, connections")
struct LaneConnectionTests {
  @Test("no connection without something to send, and none while one is opening")
  func dialling() {
    let lane = LaneDriver()
    #expect(lane.next() == .wait(until: nil))
    #expect(lane.isDisconnected)
    lane.input.published = 1
    lane.dial()
    #expect(lane.next() == .wait(until: nil))
    #expect(!lane.isDisconnected)
    lane.open()
    #expect(lane.next() == .pack(from: 0, to: 1))
  }

  @Test(
    "failed attempts are retried after growing pauses, and nothing becomes unknown",
    arguments: [LaneClosure.silent, .nothingWasRead])
  func backoff(_ closure: LaneClosure) {
    let lane = LaneDriver()
    lane.input.published = 5
    for failure in 1...8 {
      lane.dial()
      lane.close(closure)
      #expect(lane.failures == failure)
      guard case .wait(let until?) = lane.next() else {
        Issue.record("no pause after failure \(failure)")
        return
      }
      let full = Duration.milliseconds(100 * (1 << (failure - 1)))
      #expect(until >= lane.now + full / 2)
      #expect(until <= lane.now + full)
      lane.input.now = until
    }
    #expect(lane.outcomes.isEmpty)
    #expect(lane.inDoubt.isEmpty)
  }

  @Test("a connection that settled something ends the back-off; one that only opened does not")
  func backoffEnds() {
    let lane = LaneDriver()
    lane.input.published = 5
    lane.dial()
    lane.close()
    lane.connect()
    lane.close()
    #expect(lane.failures == 2)
    lane.connectAndSend(5)
    lane.respond(.invalidToken, 1)
    lane.close()
    #expect(lane.failures == 0)
    #expect(lane.next() == .dial)
  }

  @Test("a connection that was idle for long is replaced, also for resends: it may be dead unnoticed")
  func idle() {
    for published in [10, 20] as [UInt64] {
      let lane = LaneDriver { $0.confirm = .quiet }
      lane.connectAndSend(10)
      lane.pass(.seconds(5))
      #expect(lane.next() == .wait(until: lane.now + .seconds(175)))
      lane.input.published = published
      lane.pass(.seconds(175))
      #expect(lane.next() == .leave)
      lane.close(.byUs)
      #expect(lane.failures == 0)
      #expect(lane.inDoubt.isEmpty)
      #expect(lane.next() == (published == 10 ? .wait(until: nil) : .dial))
    }
  }

  @Test("cancelled notifications are settled without a connection, even during a back-off")
  func cancelled() {
    let lane = LaneDriver()
    lane.input.published = 5
    lane.dial()
    lane.close()
    lane.input.isCancelled = true
    #expect(lane.next() == .pack(from: 0, to: 5))
    lane.pack(to: 3, .cancelled)
    lane.pack(to: 5, .abandoned)
    #expect(lane.outcome(0..<3) == .cancelled)
    #expect(lane.outcome(3..<5) == .unknown)
    #expect(lane.settled == 5)
    #expect(lane.next() == .wait(until: nil))
  }

  @Test("an expired notification that may have arrived before is unknown")
  func expiredInDoubt() {
    let lane = LaneDriver()
    lane.connectAndSend(4)
    lane.close()
    #expect(lane.inDoubt == [0..<4])
    lane.connect()
    lane.pack(to: 4, .abandoned)
    #expect(lane.outcome(0..<4) == .unknown)
  }

  @Test("resends keep their order, precede new notifications, and end at the high-water mark")
  func order() {
    let lane = LaneDriver()
    lane.connectAndSend(10)
    lane.respond(.shutdown, 2)
    lane.close()
    lane.input.published = 30
    lane.connect()
    #expect(lane.next() == .pack(from: 2, to: 10))
    lane.pack(to: 6)
    #expect(lane.next() == .pack(from: 6, to: 10))
    lane.pack(to: 10)
    #expect(lane.next() == .pack(from: 10, to: 30))
    lane.pack(to: 30)
    lane.respond(.shutdown, 30)
    #expect(lane.outcome(0..<30) == .accepted(.confirmed))
    #expect(!lane.settledTwice)
  }
}
