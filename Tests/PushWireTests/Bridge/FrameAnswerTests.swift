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
