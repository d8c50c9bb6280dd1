internal import PushTransport
internal import PushWire
internal import Support
internal import Testing

@Suite("The bridge's session: times and ends")
struct BridgeSessionTests {
  /// Takes everything; answers come later.
  private struct Intake: BridgeIntake {
    mutating func take(_ frame: BridgeFrame, number: UInt64) -> FrameAnswer? { nil }
  }

  private static let start = Instant(nanoseconds: 1_000_000_000)

  private static func frame(_ number: UInt8) -> [UInt8] { frame(1, number) }

  private static func frame(_ command: UInt8, _ number: UInt8) -> [UInt8] {
    let payload = Array(#"{"aps":{}}"#.utf8)
    let head: [UInt8] = command == 0 ? [0] : [1, 0, 0, 0, number, 0x77, 0, 0, 0]
    return head + [0, 32] + [UInt8](repeating: number, count: 32) + [0, UInt8(payload.count)] + payload
  }

  private static func receive(
    _ bytes: [UInt8], _ session: inout BridgeSession, _ seconds: Int
  ) -> [BridgeAction] {
    var intake = Intake()
    return unsafe withExactBytes(bytes) { unsafe session.received($0, now: at(seconds), intake: &intake) }
  }

  private static func at(_ seconds: Int) -> Instant { start + .seconds(seconds) }

  private static func session(frames: Int = 100, frameTime: Int = 60) -> BridgeSession {
    var settings = BridgeSession.Settings()
    settings.window.frameCount = frames
    settings.frameTime = .seconds(frameTime)
    return BridgeSession(settings)
  }

  // MARK: The rest of a frame

  @Test("a client that stops in the middle of a frame has to leave after a minute")
  func stalledClient() {
    var session = Self.session()
    _ = Self.receive(Self.frame(1) + Self.frame(2).prefix(20), &session, 0)
    _ = session.answered(0, .accepted, now: Self.at(1))
    #expect(session.wake == Self.at(60))
    let early = session.woken(now: Self.at(59))
    #expect(early == [])
    let actions = session.woken(now: Self.at(60))
    #expect(
      actions == [
        .concluded(.shutDown(from: 1, unanswered: 1)), .send(ErrorResponse(status: .shutdown, identifier: 1)),
        .halfClose,
      ])
  }

  @Test("its answers are waited for, and it is not looked at again before the bound")
  func stalledClientWithPending() {
    var session = Self.session()
    _ = Self.receive(Self.frame(1) + Self.frame(2).prefix(20), &session, 0)
    let actions = session.woken(now: Self.at(60))
    #expect(actions == [])
    #expect(session.wake == Self.at(90))
    let ended = session.woken(now: Self.at(90))
    #expect(ended.count == 3)
  }

  @Test("while the window is full, the rest of a frame is not awaited")
  func fullWindow() {
    var session = Self.session(frames: 1)
    _ = Self.receive(Self.frame(1) + Self.frame(2).prefix(20), &session, 0)
    #expect(session.wantsBytes == false)
    #expect(session.wake == nil)
    let actions = session.woken(now: Self.at(1000))
    #expect(actions == [])
    _ = session.answered(0, .accepted, now: Self.at(1000))
    #expect(session.wantsBytes == true)
    #expect(session.wake == Self.at(1060))
    _ = Self.receive(Array(Self.frame(2).dropFirst(20)), &session, 1059)
    #expect(session.wake == nil)
    #expect(session.frameCount == 2)
  }

  @Test("while the shell does not read, the rest of a frame is not awaited")
  func pausedReading() {
    var session = Self.session()
    _ = Self.receive(Self.frame(1) + Self.frame(2).prefix(20), &session, 0)
    session.setReading(false, now: Self.at(1))
    #expect(session.wake == nil)
    let actions = session.woken(now: Self.at(1000))
    #expect(actions == [])
    session.setReading(true, now: Self.at(1000))
    #expect(session.wake == Self.at(1060))
    // A client that goes on in pieces has the same minute.
    _ = Self.receive(Array(Self.frame(2)[20..<21]), &session, 1059)
    #expect(session.wake == Self.at(1060))
  }

  @Test("each frame has a minute of its own")
  func nextPart() {
    var session = Self.session()
    _ = Self.receive(Array(Self.frame(1).prefix(20)), &session, 0)
    _ = Self.receive(Array(Self.frame(1).dropFirst(20)) + Self.frame(2).prefix(3), &session, 50)
    #expect(session.wake == Self.at(110))
  }

  // MARK: Ends

  @Test("an end with a time of its own is concluded then, with the answered prefix")
  func endByTime() {
    var session = Self.session()
    _ = Self.receive((1...4).flatMap { Self.frame($0) }, &session, 0)
    _ = session.answered(0, count: 2, .accepted, now: Self.at(1))
    let actions = session.end(by: Self.at(8), now: Self.at(2))
    #expect(actions == [])
    #expect(session.wake == Self.at(8))
    let ended = session.woken(now: Self.at(8))
    #expect(
      ended == [
        .concluded(.shutDown(from: 2, unanswered: 2)), .send(ErrorResponse(status: .shutdown, identifier: 2)),
        .halfClose,
      ])
  }

  @Test("an end with a time of its own hastens a conclusion that is awaited, and delays none")
  func endByTimeTwice() {
    var session = Self.session()
    _ = Self.receive((1...4).flatMap { Self.frame($0) }, &session, 0)
    _ = session.answered(3, .refused(.invalidToken), now: Self.at(0))
    #expect(session.wake == Self.at(30))
    _ = session.end(by: Self.at(8), now: Self.at(2))
    #expect(session.wake == Self.at(8))
    _ = session.end(by: Self.at(50), now: Self.at(2))
    #expect(session.wake == Self.at(8))
  }

  @Test("an end whose time has come is concluded at once")
  func endAtOnce() {
    var session = Self.session()
    _ = Self.receive(Self.frame(1), &session, 0)
    let actions = session.end(by: Self.at(2), now: Self.at(2))
    #expect(
      actions == [
        .concluded(.shutDown(from: 0, unanswered: 0)), .send(ErrorResponse(status: .shutdown, identifier: 0)),
        .halfClose,
      ])
  }

  @Test("nothing is answered: status 10 names the last frame in the journal, before the first that failed")
  func endUnanswered() {
    for (journalled, failed, named) in [(4, nil, 4), (2, nil, 2), (4, 2, 2), (0, nil, 0)] as [(UInt64, UInt64?, UInt64)]
    {
      var session = Self.session()
      _ = Self.receive((1...4).flatMap { Self.frame($0) }, &session, 0)
      if let failed { _ = session.answered(failed, .refused(.invalidToken), now: Self.at(1)) }
      session.journalled(before: journalled)
      _ = session.end(by: Self.at(8), now: Self.at(2))
      let ended = session.woken(now: Self.at(8))
      let response = ErrorResponse(status: .shutdown, identifier: UInt32(named))
      #expect(ended == [.concluded(.shutDown(from: named, unanswered: 0)), .send(response), .halfClose])
    }
  }

  @Test("a session that names what is not in the journal is found")
  func plantedMistake() {
    var settings = BridgeSession.Settings()
    settings.window.plantedMistake = .namesUntaken
    var session = BridgeSession(settings)
    _ = Self.receive((1...4).flatMap { Self.frame($0) }, &session, 0)
    session.journalled(before: 2)
    _ = session.end(by: Self.at(8), now: Self.at(2))
    let ended = session.woken(now: Self.at(8))
    #expect(ended.first == .concluded(.shutDown(from: 4, unanswered: 0)))
  }

  @Test("a service that does not answer, and goes on: with an answered frame, status 10 names that one")
  func failureWaits() {
    for isAnswered in [true, false] {
      var session = Self.session()
      _ = Self.receive((1...4).flatMap { Self.frame($0) }, &session, 0)
      session.journalled(before: 4)
      if isAnswered { _ = session.answered(0, .accepted, now: Self.at(0)) }
      _ = session.answered(3, .refused(.invalidToken), now: Self.at(0))
      let ended = session.woken(now: Self.at(30))
      let response = ErrorResponse(status: .shutdown, identifier: isAnswered ? 1 : 3)
      #expect(ended.contains(.send(response)))
    }
  }

  @Test("a client that closed its side is told how far its frames came, after the bound")
  func halfClosed() {
    var session = Self.session()
    _ = Self.receive((1...4).flatMap { Self.frame($0) }, &session, 0)
    _ = session.answered(0, count: 2, .accepted, now: Self.at(1))
    let actions = session.peerClosed(now: Self.at(1))
    #expect(actions == [])
    let ended = session.woken(now: Self.at(31))
    #expect(
      ended == [
        .concluded(.shutDown(from: 2, unanswered: 2)), .send(ErrorResponse(status: .shutdown, identifier: 2)), .close,
      ])
  }

  @Test("a client of command 0 that closed its side takes everything for accepted")
  func halfClosedSimple() {
    var session = Self.session()
    _ = Self.receive(Self.frame(0, 1), &session, 0)
    _ = session.peerClosed(now: Self.at(1))
    let ended = session.woken(now: Self.at(31))
    #expect(ended == [.concluded(.closed), .close])
    #expect(session.hasFailedSilently == false)
  }

  @Test("only a frame of command 0 that failed is a silent failure", arguments: [0, 1] as [UInt8])
  func silentFailure(_ command: UInt8) {
    var session = Self.session()
    _ = Self.receive(Self.frame(command, 1), &session, 0)
    _ = session.answered(0, .refused(.invalidToken), now: Self.at(0))
    #expect(session.hasFailedSilently == (command == 0))

    var broken = Self.session()
    _ = Self.receive(Array(Self.frame(command, 1).prefix(5)), &broken, 0)
    let actions = broken.peerClosed(now: Self.at(0))
    #expect(actions == [.concluded(.broken), .close])
    #expect(broken.hasFailedSilently == false)
  }

  @Test("a client that broke off inside a frame may send everything again")
  func brokenOff() {
    var session = Self.session()
    _ = Self.receive((1...2).flatMap { Self.frame($0) } + [1], &session, 0)
    _ = session.answered(0, .accepted, now: Self.at(0))
    _ = session.peerClosed(now: Self.at(0))
    #expect(session.wake == Self.at(30))
    let ended = session.woken(now: Self.at(30))
    #expect(ended.first == .concluded(.shutDown(from: 1, unanswered: 1)))
  }
}
