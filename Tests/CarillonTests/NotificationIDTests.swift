internal import Carillon
internal import Foundation
internal import Support
internal import Testing

@Suite("Identifiers of what was taken in")
struct NotificationIDTests {
  @Test("each is a UUID of version 7 that says when its run began, and is read back")
  func roundTrip() throws {
    var random = SeededGenerator.fresh()
    for _ in 0..<1000 {
      let milliseconds = UInt64.random(in: 0..<1 << 48, using: &random)
      let run = IntakeRunID(milliseconds: milliseconds, random: .random(in: 0 ... .max, using: &random))
      let id = NotificationID(run: run, line: .random(in: 0 ... .max, using: &random))
      let text = id.description
      #expect(NotificationID(text) == id)
      #expect(NotificationID(text.uppercased()) == id)
      let uuid = try #require(UUID(uuidString: text)).uuid
      #expect(uuid.6 >> 4 == 7)
      #expect(uuid.8 >> 6 == 2)
      let time = [uuid.0, uuid.1, uuid.2, uuid.3, uuid.4, uuid.5].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
      #expect(time == milliseconds)
    }
  }

  @Test(
    "other text is refused",
    arguments: [
      "", "01a2028a", "01a2028a-f598-498e-94da-407300000001", "01a2028a-f598-798e-14da-407300000001",
      "01a2028af598798e94da407300000001", "01a2028a-f598-798e-94da-40730000000g",
      "01a2028a-f598-798e-94da-4073000000012",
    ])
  func hostile(text: String) { #expect(NotificationID(text) == nil) }
}
