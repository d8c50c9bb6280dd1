internal import PushWire
internal import Support
internal import Testing

@Suite("Error responses")
struct ErrorResponseTests {
  private func decode(_ pieces: [ArraySlice<UInt8>]) -> (results: [ErrorResponseDecoder.Result], pending: Int) {
    var decoder = ErrorResponseDecoder()
    let results = pieces.map { piece in unsafe withExactBytes(piece) { unsafe decoder.consume($0) } }
    return (results, decoder.pendingByteCount)
  }

  /// The table of BinaryProtocol.md, "The error response".
  @Test(
    "every status of the protocol has its number and its name",
    arguments: [
      (0, GatewayStatus.noErrors, "0 no errors"), (1, .processingError, "1 processing error"),
      (2, .missingDeviceToken, "2 missing device token"),
      (3, .missingTopic, "3 missing topic"), (4, .missingPayload, "4 missing payload"),
      (5, .invalidTokenSize, "5 invalid token size"),
      (6, .invalidTopicSize, "6 invalid topic size"), (7, .invalidPayloadSize, "7 invalid payload size"),
      (8, .invalidToken, "8 invalid token"),
      (10, .shutdown, "10 shutdown"), (128, .protocolError, "128 protocol error"), (255, .unknown, "255 unknown"),
    ] as [(UInt8, GatewayStatus, String)]
  )
  func names(_ number: UInt8, _ status: GatewayStatus, _ name: String) {
    #expect(status.rawValue == number)
    #expect(status.description == name)
    #expect(GatewayStatus.documented.contains(status))
  }

  @Test("a status that the protocol does not define is shown as its number")
  func undocumented() {
    #expect(GatewayStatus(rawValue: 9).description == "9 undocumented status")
    #expect(GatewayStatus.documented.count == 12)
  }

  @Test("it is 08, the status and the identifier")
  func golden() {
    let response = ErrorResponse(status: .invalidToken, identifier: 0x0102_0304)
    #expect(response.bytes == [0x08, 0x08, 0x01, 0x02, 0x03, 0x04])
    #expect(ErrorResponse(status: .protocolError, identifier: 0).bytes == [0x08, 0x80, 0, 0, 0, 0])
    #expect(unsafe writingExactBytes(6) { unsafe response.encode(into: $0) } == response.bytes)
  }

  @Test("every status byte passes both codecs unchanged")
  func roundTrip() {
    for status in UInt8.min ... .max {
      let response = ErrorResponse(status: GatewayStatus(rawValue: status), identifier: 0xFEDC_BA98 &+ UInt32(status))
      #expect(decode([response.bytes[...]]).results == [.response(response)])
    }
  }

  @Test("it may be cut anywhere, and what follows it is ignored", arguments: 0...6)
  func cut(_ place: Int) {
    let response = ErrorResponse(status: .shutdown, identifier: 77)
    let bytes = response.bytes
    let (results, pending) = decode([bytes[..<place], bytes[place...] + [9, 9, 9], [8, 1, 0, 0, 0, 1]])
    #expect(results == [place == 6 ? .response(response) : .needMore, .response(response), .response(response)])
    #expect(pending == 0)
    #expect(decode(bytes.map { [$0] }).results.last == .response(response))
  }

  @Test("a response that ends early reports how many bytes came")
  func truncated() {
    let (results, pending) = decode([[8, 8, 0]])
    #expect(results == [.needMore])
    #expect(pending == 3)
  }

  @Test("another first byte is not an error response, and later bytes do not change that")
  func malformed() {
    #expect(
      decode([[], [0x15, 3, 3], [8, 8, 0, 0, 0, 1]]).results == [
        .needMore, .malformed(command: 0x15), .malformed(command: 0x15),
      ])
  }
}
