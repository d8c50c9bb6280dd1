internal import PushWire
internal import Testing

@Suite("Outcomes in the terms of the binary protocol")
struct FrameAnswerTests {
  private static func provider(_ status: UInt16, _ reason: ProviderReason) -> Outcome {
    .rejected(.provider(ProviderRefusal(status: status, reason: reason)))
  }

  static let cases: [(Outcome, FrameAnswer)] = [
    (.accepted(.confirmed), .accepted), (.accepted(.quiet), .accepted), (.suppressed, .accepted),
    (.expired, .accepted), (.unknown, .refused(.processingError)), (.held, .refused(.processingError)),
    (provider(400, .badDeviceToken), .refused(.invalidToken)),
    (provider(400, .deviceTokenNotForTopic), .refused(.invalidToken)),
    (provider(413, .payloadTooLarge), .refused(.invalidPayloadSize)),
    (provider(400, .payloadEmpty), .refused(.missingPayload)),
    (provider(400, .badTopic), .refused(.missingTopic)), (provider(400, .missingTopic), .refused(.missingTopic)),
    (provider(410, .unregistered), .accepted), (provider(410, .expiredToken), .accepted),
    (provider(400, .badPriority), .refused(.processingError)),
    (.rejected(.status(.invalidToken)), .refused(.invalidToken)),
    (.rejected(.status(.shutdown)), .refused(.processingError)),
    (.rejected(.gaveUp(ProviderRefusal(status: 503, reason: .serviceUnavailable))), .refused(.processingError)),
  ]

  @Test(arguments: cases)
  func answer(outcome: Outcome, answer: FrameAnswer) { #expect(FrameAnswer(outcome) == answer) }
}

@Suite("What the bridge remembers")
struct ForwardedMemoryTests {
  private func digest(_ number: UInt64) -> FrameDigest { FrameDigest(high: number, low: 0) }
  private func entry(_ line: UInt32, _ answer: FrameAnswer? = .accepted) -> ForwardedMemory.Entry {
    ForwardedMemory.Entry(line: ForwardedLine(high: 1, low: 1, line: line), answer: answer)
  }

  @Test("equal notifications are as many as were remembered, the oldest first")
  func multiset() {
    var memory = ForwardedMemory()
    memory.remember(digest(1), entry(1), now: .start)
    memory.remember(digest(1), entry(2), now: .start)
    #expect(memory.take(digest(1), now: .start) == entry(1))
    #expect(memory.take(digest(2), now: .start) == nil)
    #expect(memory.take(digest(1), now: .start) == entry(2))
    #expect(memory.take(digest(1), now: .start) == nil)
    #expect(memory.isEmpty)
  }

  @Test("an answer that comes later is the entry's")
  func lateAnswer() {
    var memory = ForwardedMemory()
    memory.remember(digest(1), entry(1, nil), now: .start)
    memory.answered(entry(1).line, .refused(.invalidToken))
    #expect(memory.take(digest(1), now: .start)?.answer == .refused(.invalidToken))
  }

  @Test("number and age are bounded")
  func bounds() {
    var limits = ForwardedMemory.Limits()
    limits.count = 100
    var memory = ForwardedMemory(limits)
    for number in 0..<1000 as Range<UInt64> {
      let forgotten = memory.remember(digest(number), entry(UInt32(number), nil), now: .start)
      #expect(forgotten.count == (number < 100 ? 0 : 1))
    }
    #expect(memory.count == 100)
    #expect(memory.take(digest(899), now: .start) == nil)
    #expect(memory.take(digest(900), now: .start) != nil)
    #expect(memory.take(digest(901), now: .start + .seconds(601)) == nil)
    #expect(memory.isEmpty)
  }
}
