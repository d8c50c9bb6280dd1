internal import Foundation
internal import PushTransport
internal import PushWire
internal import Support
internal import Testing

@testable internal import Carillon
@testable internal import PushEngine

@Suite("What a run has taken in and its reader has not read")
struct IntakeQueueTests {
  private static func notification(_ text: String) throws -> PreparedNotification {
    var settings = AppSettings(id: "news", credential: .certificate(CredentialFiles(certificate: "")))
    settings.transport = .http2
    settings.topic = "com.example.news"
    return try PreparedNotification(
      PushNotification(json: Array(text.utf8)), payload: Array(text.utf8), settings: settings, kind: .token, now: 0)
  }

  @Test("each comes out once, in order, with its content", arguments: 0..<40)
  func order(seed: Int) throws {
    var random = SeededGenerator(seed: UInt64(seed))
    let contents = try (0..<3).map { try Self.notification("{\"aps\":{\"badge\":\($0)}}") }
    let chunk = AudienceChunk(entryLimit: Int.random(in: 1...50, using: &random), payloadCapacity: 200)
    var queue = IntakeQueue()
    var expected: [String] = []
    var found: [String] = []
    var byteCount = 0
    for _ in 0..<60 {
      var batch = IntakeBatch()
      for _ in 0..<Int.random(in: 0...40, using: &random) {
        guard let token = PushWire.DeviceToken(bytes: random.bytes(32)) else { continue }
        let notification = contents[random.chance(80) ? 0 : Int.random(in: 0..<3, using: &random)]
        batch.append(notification, token)
        expected.append("\(token) \(String(decoding: notification.payload, as: UTF8.self))")
      }
      byteCount += queue.append(batch, batch.parts)
      for _ in 0..<Int.random(in: 0...4, using: &random) { byteCount -= read(&queue, chunk, &found) }
      #expect(queue.count == expected.count - found.count)
      #expect(queue.byteCount == byteCount)
    }
    while queue.count > 0 { byteCount -= read(&queue, chunk, &found) }
    #expect(found == expected, "seed \(seed)")
    #expect(byteCount == 0)
  }

  private func read(_ queue: inout IntakeQueue, _ chunk: AudienceChunk, _ found: inout [String]) -> Int {
    chunk.removeAll()
    let first = UInt64(found.count + 1)
    let (count, byteCount) = queue.move(into: chunk, from: first)
    #expect(count == chunk.count)
    for index in 0..<chunk.count {
      let entry = chunk[index]
      #expect(entry.line == first + UInt64(index))
      found.append("\(chunk.text(of: entry)) \(chunk.payloadText(of: entry))")
    }
    return byteCount
  }
}
