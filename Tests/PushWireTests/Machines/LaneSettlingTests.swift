internal import PushWire
internal import Testing

/// The spec's "What the sender concludes", rule by rule. Position p has identifier p + 1.
@Suite("LaneMachine, settling")
struct LaneSettlingTests {
  @Test(
    "a refusal confirms what precedes it, rejects what it names, and the rest is resent on another connection",
    arguments: [1, 5, 10] as [UInt32],
    [
      GatewayStatus.processingError, .missingPayload, .invalidToken, .protocolError, .unknown,
      GatewayStatus(rawValue: 77),
    ])
  func namedRefusal(_ identifier: UInt32, _ status: GatewayStatus) {
    let lane = LaneDriver()
    lane.connectAndSend(10)
    lane.respond(status, identifier)
    let named = UInt64(identifier) - 1
    #expect(named == 0 || lane.outcome(0..<named) == .accepted(.confirmed))
    #expect(lane.outcomes[named] == .rejected(.status(status)))
    #expect(lane.outcomes.count == Int(named) + 1)
    #expect(lane.inDoubt.isEmpty, "what followed was discarded for certain")
    #expect(lane.madeProgress)
    #expect(lane.hasRewound == (named < 9))
    #expect(lane.sent == named + 1)
    #expect(lane.next() == .wait(until: nil), "the connection is over")
    lane.close()
    #expect(lane.outcomes.count == Int(named) + 1, "the closure says nothing more")
    #expect(lane.failures == 0)
    if named < 9 {
      #expect(lane.next() == .dial, "no back-off after a connection that got something done")
      lane.connect()
      lane.input.published = 20
      #expect(lane.next() == .pack(from: named + 1, to: 10), "the resend first, apart from what is new")
      lane.pack(to: 10)
      #expect(lane.next() == .pack(from: 10, to: 20))
    }
  }

  @Test("status 10 names the last accepted notification, and is not a failure", arguments: [1, 5, 10] as [UInt32])
  func shutdown(_ identifier: UInt32) {
    let lane = LaneDriver()
    lane.connectAndSend(10)
    lane.respond(.shutdown, identifier)
    #expect(lane.outcome(0..<UInt64(identifier)) == .accepted(.confirmed))
    #expect(lane.outcomes.count == Int(identifier))
    #expect(lane.sent == UInt64(identifier))
    #expect(lane.inDoubt.isEmpty)
    #expect(lane.madeProgress)
  }

  @Test("status 10 that names the last settled one: nothing in the window was accepted, and nothing is in doubt")
  func shutdownNamingSettled() {
    let lane = LaneDriver()
    lane.connectAndSend(4)
    lane.pass(.seconds(6))
    lane.input.published = 9
    #expect(lane.next() == .pack(from: 4, to: 9))
    #expect(lane.outcome(0..<4) == .accepted(.quiet))
    lane.pack(to: 9)
    lane.respond(.shutdown, 4)
    #expect(lane.outcomes.count == 4)
    #expect(lane.sent == 4)
    #expect(lane.hasRewound)
    #expect(lane.inDoubt.isEmpty)
  }

  @Test("status 10 that names a notification of an earlier connection counts as an unknown identifier")
  func shutdownNamingOldConnection() {
    let lane = LaneDriver()
    lane.connectAndSend(4)
    lane.pass(.seconds(6))
    _ = lane.next()
    lane.close()
    lane.connectAndSend(9)
    lane.respond(.shutdown, 4)
    #expect(lane.inDoubt == [4..<9])
  }

  @Test(
    "an identifier that is 0 or not in the window puts the whole window in doubt: never settled, never dropped",
    arguments: [
      (.invalidToken, 0), (.shutdown, 0), (.invalidToken, 11), (.shutdown, 11), (.invalidToken, 0x7FFF_FFFF),
      (.invalidToken, 0x8000_0000),
      (.protocolError, .max),
    ]
      as [(GatewayStatus, UInt32)])
  func notInWindow(_ status: GatewayStatus, _ identifier: UInt32) {
    let lane = LaneDriver()
    lane.connectAndSend(10)
    lane.respond(status, identifier)
    #expect(lane.outcomes.isEmpty)
    #expect(lane.inDoubt == [0..<10])
    #expect(lane.hasRewound)
    #expect(lane.sent == 0)
    #expect(!lane.madeProgress)
  }

  @Test("a refusal names nothing if it names padding, or what was settled by quiet period or not sent")
  func namesNothing() {
    for identifier in [2, 6, 8] as [UInt32] {
      let other = LaneDriver()
      other.walk.padding = [5]
      other.input.published = 10
      other.connect()
      other.pack(to: 3)
      other.pass(.seconds(6))
      _ = other.next()
      #expect(other.outcome(0..<3) == .accepted(.quiet))
      other.pack(to: 7)
      other.pack(to: 9, .expired)
      other.pack(to: 10)
      other.respond(.invalidToken, identifier)
      #expect(other.outcomes.count == 3, "identifier \(identifier)")
      #expect(other.inDoubt == [3..<7, 9..<10], "what was not sent cannot have arrived")
    }
  }

  @Test(
    "frames of command 0 have no identifiers, so no number in an answer names one of them",
    arguments: [GatewayStatus.invalidToken, .shutdown])
  func commandWithoutIdentifiers(_ status: GatewayStatus) {
    let lane = LaneDriver { $0.hasIdentifiers = false }
    lane.connectAndSend(10)
    lane.respond(status, 5)
    #expect(lane.outcomes.isEmpty)
    #expect(lane.inDoubt == [0..<10])
  }

  @Test("bytes that are no error response settle nothing")
  func garbage() {
    let lane = LaneDriver()
    lane.connectAndSend(3)
    lane.respondGarbage()
    #expect(lane.outcomes.isEmpty)
    #expect(lane.inDoubt == [0..<3])
    #expect(lane.sent == 0)
  }

  @Test(
    "after a silent close the app's policy decides: resent as possible duplicates, held, or dropped",
    arguments: [LaneClosure.silent, .byUs], LanePolicy.OnUnknown.allCases)
  func silent(_ closure: LaneClosure, _ onUnknown: LanePolicy.OnUnknown) {
    let lane = LaneDriver { $0.onUnknown = onUnknown }
    lane.connectAndSend(10)
    lane.close(closure)
    switch onUnknown {
    case .resend:
      #expect(lane.outcomes.isEmpty)
      #expect(lane.inDoubt == [0..<10])
      #expect(lane.sent == 0)
    case .hold:
      #expect(lane.outcome(0..<10) == .held)
      #expect(lane.outcomes.count == 10)
      #expect(lane.inDoubt.isEmpty)
    case .drop:
      #expect(lane.outcome(0..<10) == .unknown)
      #expect(lane.outcomes.count == 10)
      #expect(lane.inDoubt.isEmpty)
    }
  }

  @Test(
    "a gateway that refused the certificate at first has read nothing: all is resent, nothing is in doubt",
    arguments: LanePolicy.OnUnknown.allCases)
  func nothingWasRead(_ onUnknown: LanePolicy.OnUnknown) {
    let lane = LaneDriver { $0.onUnknown = onUnknown }
    lane.connectAndSend(10)
    lane.close(.nothingWasRead)
    #expect(lane.outcomes.isEmpty)
    #expect(lane.inDoubt.isEmpty)
    #expect(lane.sent == 0)
    #expect(lane.discardedFrom == 0)
    #expect(!lane.hasWorked)
  }

  /// How a connection has shown that the gateway accepts our certificate.
  enum Work: CaseIterable {
    case settledSomething
    case heardPartOfAnAnswer
    /// Neither. But an alert that comes seconds later does not concern the handshake.
    case livedForASecond
  }

  @Test(
    "an alert about the certificate on a connection that has worked leaves the window in doubt",
    arguments: Work.allCases)
  func lateAlert(_ work: Work) {
    let lane = LaneDriver { $0.confirm = .quiet }
    lane.connectAndSend(10)
    switch work {
    case .settledSomething:
      lane.pass(.seconds(5))
      _ = lane.next()
    case .heardPartOfAnAnswer: lane.hearPart()
    case .livedForASecond: lane.pass(.seconds(1))
    }
    #expect(lane.hasWorked == (work != .livedForASecond))
    let settled = lane.settled
    lane.input.published = 20
    _ = lane.sendAll()
    lane.close(.nothingWasRead)
    #expect(lane.inDoubt == [settled..<20])
    #expect(lane.discardedFrom == nil)
    #expect(lane.sent == settled)
  }

  @Test("only an answer that names one of our frames proves that the rest was discarded, and says from where")
  func discarded() {
    for (status, identifier, from) in [
      (.invalidToken, 4, 4), (.shutdown, 4, 4), (.invalidToken, 10, nil), (.shutdown, 0, nil), (.invalidToken, 11, nil),
    ] as [(GatewayStatus, UInt32, UInt64?)] {
      let lane = LaneDriver()
      lane.connectAndSend(10)
      lane.respond(status, identifier)
      #expect(lane.discardedFrom == from, "\(status) \(identifier)")
    }
    let lane = LaneDriver()
    lane.connectAndSend(10)
    lane.close()
    #expect(lane.discardedFrom == nil)
  }

  @Test("a notification that an earlier connection may have delivered stays in doubt when a later one discards it")
  func discardedInDoubt() {
    let lane = LaneDriver()
    lane.connectAndSend(10)
    lane.close()
    #expect(lane.inDoubt == [0..<10])
    lane.connect()
    lane.pack(to: 10)
    lane.respond(.invalidToken, 3)
    #expect(lane.discardedFrom == 3)
    #expect(lane.inDoubt.isEmpty)
  }

  @Test(
    "unsent notifications keep their own outcome among sent neighbours",
    arguments: LanePolicy.OnUnknown.allCases)
  func unsentNeighbours(_ onUnknown: LanePolicy.OnUnknown) {
    let lane = LaneDriver { $0.onUnknown = onUnknown }
    lane.input.published = 12
    lane.connect()
    lane.pack(to: 2, .expired)
    #expect(lane.outcome(0..<2) == .expired, "nobody's answer is needed for it")
    lane.pack(to: 4)
    lane.pack(to: 6, .cancelled)
    lane.pack(to: 8)
    lane.pack(to: 10, .expired)
    lane.pack(to: 12, .abandoned)
    lane.close()
    if onUnknown == .resend {
      #expect(lane.inDoubt == [2..<4, 6..<8])
      #expect(lane.outcomes.count == 2)
    } else {
      #expect(lane.outcome(4..<6) == .cancelled)
      #expect(lane.outcome(8..<10) == .expired)
      #expect(lane.outcome(10..<12) == .unknown)
      #expect(lane.outcome(2..<4) == lane.outcome(6..<8))
    }
  }

  @Test("an unsent notification is settled when no sent one precedes it")
  func unsentBehindRefused() {
    let lane = LaneDriver()
    lane.input.published = 9
    lane.connect()
    lane.pack(to: 3)
    lane.pack(to: 6, .expired)
    lane.pack(to: 9)
    lane.respond(.invalidToken, 3)
    #expect(lane.outcome(0..<2) == .accepted(.confirmed))
    #expect(lane.outcome(3..<6) == .expired)
    #expect(lane.settled == 6)
    #expect(lane.sent == 6)
  }

  @Test(
    "identifiers wrap from 0x7FFF_FFFF to 1, and an answer on either side of the wrap settles exactly",
    arguments: 0..<8 as Range<UInt64>)
  func wrapAround(_ offset: UInt64) {
    let lane = LaneDriver()
    let base = UInt64(ResendWindow.identifierCount) * 3 - 4
    lane.input.published = base
    lane.input.isCancelled = true
    lane.walk.padding = []
    #expect(lane.next() == .pack(from: 0, to: base))
    lane.skip(to: base)
    lane.input.isCancelled = false
    lane.connectAndSend(base + 8)
    let identifiers: [UInt32] = [0x7FFF_FFFC, 0x7FFF_FFFD, 0x7FFF_FFFE, 0x7FFF_FFFF, 1, 2, 3, 4]
    #expect((base..<base + 8).map { ResendWindow.identifier(at: $0) } == identifiers)
    lane.respond(.invalidToken, identifiers[Int(offset)])
    #expect(offset == 0 || lane.outcome(base..<base + offset) == .accepted(.confirmed))
    #expect(lane.outcomes[base + offset] == .rejected(.status(.invalidToken)))
    #expect(lane.settled == base + offset + 1)
    #expect(lane.inDoubt.isEmpty)
  }

  @Test("an answer after the end of the connection changes nothing")
  func tooLate() {
    let lane = LaneDriver()
    lane.connectAndSend(10)
    lane.respond(.invalidToken, 3)
    lane.respond(.invalidToken, 5)
    lane.respondGarbage()
    #expect(lane.outcomes.count == 3)
    #expect(lane.sent == 3)
  }
}

extension LaneDriver {
  /// Passes over a long stretch of padding.
  func skip(to position: UInt64) {
    packPadding(to: position)
    #expect(settled == position)
    #expect(sent == position)
  }
}
