internal import PushWire
internal import Testing

@Suite("What a bridge remembers of a process that was killed")
struct BridgeRecoveryTests {
  private static func frame(_ number: UInt64, answer: FrameAnswer? = .accepted) -> BridgeRecovery.Frame {
    BridgeRecovery.Frame(
      app: "news", client: "client", digest: FrameDigest(high: number, low: 1), answer: answer,
      answeredAt: Instant(nanoseconds: 1), connection: 7, number: number, isRecognised: false)
  }

  private static func recovered(_ frames: [(BridgeRecovery.Frame, isRecent: Bool)]) -> Set<UInt64> {
    var recovery = BridgeRecovery()
    for (frame, isRecent) in frames {
      recovery.read(
        frame, as: ForwardedLine(high: 1, low: 1, line: UInt32(frame.number)), nil, isRecent: isRecent,
        isInJournal: true)
    }
    return Set(recovery.frames.map(\.frame.number))
  }

  @Test("frames of one read that went to two runs are all remembered, whichever run was written first")
  func order() {
    let frames = (0..<8).map { (Self.frame($0), isRecent: $0 >= 3) }
    #expect(Self.recovered(frames) == [3, 4, 5, 6, 7])
    #expect(Self.recovered(Array(frames[5...] + frames[..<5])) == [3, 4, 5, 6, 7])
  }

  @Test("everything behind a frame that may have been refused is remembered, in any order")
  func refused() {
    let frames = (0..<8).map { (Self.frame($0, answer: $0 == 2 ? nil : .accepted), isRecent: false) }
    #expect(Self.recovered(frames) == [3, 4, 5, 6, 7])
    #expect(Self.recovered(frames.reversed()) == [3, 4, 5, 6, 7])
  }
}
