internal import PushWire
internal import Testing

@Suite("The text of a rejection")
struct RejectionTextTests {
  private static var refusals: [ProviderRefusal] {
    [400, 403, 410, 429, 503].flatMap { (status: UInt16) in
      ProviderReason.allCases.map { ProviderRefusal(status: status, reason: $0) } + [
        ProviderRefusal(status: status, reason: nil),
        ProviderRefusal(status: status, reason: nil, otherReason: "Two words"),
        ProviderRefusal(status: status, reason: nil, otherReason: ""),
      ]
    }
  }

  private static var all: [Rejection] {
    [.streamRefused, .closedWithoutReason] + Rejection.atIntake
      + (0...255).map { .status(GatewayStatus(rawValue: $0)) } + refusals.flatMap { [.provider($0), .gaveUp($0)] }
  }

  @Test("says which one it is: each is read back as it was")
  func isReadBack() {
    for rejection in Self.all { #expect(Rejection(text: rejection.description) == rejection) }
  }

  @Test(
    "of another kind is none",
    arguments: ["", "8", "8 valid token", "1000 Gone", "given up", "given up after", "quiet"]
  )
  func foreign(text: String) { #expect(Rejection(text: text) == nil) }
}
