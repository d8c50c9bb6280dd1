internal import Carillon
internal import PushWire
internal import Support
internal import Testing

@testable internal import CarillonCommand

/// Payload files, checked before they are sent.
struct PayloadCheckTests {
  private let place: Workplace

  init() throws { place = try Workplace() }

  private func check(
    _ text: String, for purpose: PayloadCheck.Purpose, priority: UInt8? = nil
  ) throws -> PayloadCheck {
    try PayloadCheck(file: place.write(text, to: "payload.json"), for: purpose, priority: priority)
  }

  @Test("the result as JSON has exactly the documented form")
  func json() throws {
    let check = try check(#"{"aps":{"alert":"Hello {{name}}","badge":1}}"#, for: .frame(.framed))
    #expect(check.isGood)
    #expect(
      check.json
        == #"{"file":"\#(check.file)","good":true,"bytes":37,"limit":2048,"columns":["name"],"findings":[]}"#)
  }

  @Test(
    "the limit is that of the purpose",
    arguments: [
      (PayloadCheck.Purpose.frame(.simple), 256), (.frame(.framed), 2048), (.notification(.alert), 4096),
      (.notification(.voip), 5120), (.broadcast, 5120),
    ])
  func limits(purpose: PayloadCheck.Purpose, limit: Int) throws {
    #expect(try check(#"{"aps":{}}"#, for: purpose).transport.payloadLimit == limit)
  }

  @Test("rules of the purpose and of the priority are checked")
  func findings() throws {
    let silent = #"{"aps":{"content-available":1}}"#
    #expect(try check(silent, for: .frame(.framed), priority: 5).isGood)
    #expect(try !check(silent, for: .frame(.framed), priority: 10).isGood)
    #expect(try check(silent, for: .notification(.background), priority: 5).isGood)
    #expect(try !check(silent, for: .notification(.background), priority: 10).isGood)
    #expect(try !check(silent, for: .broadcast).isGood)
    #expect(try check(#"{"mdm":"token"}"#, for: .notification(.mdm)).isGood)
  }

  @Test("a file that cannot be read is an error")
  func missing() {
    let error = #expect(throws: CarillonError.self) {
      try PayloadCheck(file: place.path("none.json"), for: .broadcast, priority: nil)
    }
    #expect(error?.code == .payload)
  }
}
