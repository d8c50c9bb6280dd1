internal import Support
internal import Testing

@testable internal import PushEngine

@Suite("Reasons that are not in the table") struct UnknownReasonsTests {
  private func text(_ reasons: UnknownReasons, _ status: UInt16 = 400, _ text: String) -> String {
    unsafe withExactBytes(Array(text.utf8)) { unsafe reasons.text(status: status, $0) }
  }

  @Test("one app keeps 64 of them, and counts all others together")
  func bounds() {
    let reasons = UnknownReasons()
    for round in 0..<2 {
      for number in 0..<64 {
        #expect(
          text(reasons, 400 + UInt16(number % 2), "Reason\(number / 2)") == "Reason\(number / 2)", "round \(round)")
      }
      #expect(text(reasons, 402, "Reason0") == "another reason")
      #expect(text(reasons, 400, "Reason64") == "another reason")
    }
  }

  @Test("bytes that are not shown do not make another reason")
  func length() {
    let reasons = UnknownReasons()
    let start = String(repeating: "x", count: 256)
    for number in 0..<100 { #expect(text(reasons, 400, start + "\(number)") == start.prefix(64)) }
    #expect(text(reasons, 400, "Other\u{1b}") == #"Other\u{1b}"#)
  }
}
