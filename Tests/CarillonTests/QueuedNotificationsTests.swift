internal import Foundation
internal import PushTransport
internal import PushWire
internal import Support
internal import Testing

@testable internal import Carillon
@testable internal import PushEngine

@Suite("What a run has taken in and its reader has not read")
struct QueuedNotificationsTests {
  private static func notification(
    _ text: String, expiration: Date? = nil, id: UUID? = nil
  ) throws -> PreparedNotification {
    let app = AppConfiguration(
      id: "news", topic: "com.example.news", transport: .http2(), credential: .certificate(file: ""))
    var notification = PushNotification(json: Array(text.utf8))
    notification.expiration = expiration.map { .at($0) }
    notification.id = id
    return try PreparedNotification(
      notification, payload: Array(text.utf8), app: app, kind: .token, now: 0)
  }

  @Test("each comes out once, in order, with its content", arguments: 0..<40)
  func order(seed: Int) throws {
    var random = SeededGenerator(seed: UInt64(seed))
    let contents = try (0..<3).map { try Self.notification("{\"aps\":{\"badge\":\($0)}}") }
    let chunk = AudienceChunk(entryLimit: Int.random(in: 1...50, using: &random), payloadCapacity: 200)
    var queue = QueuedNotifications()
    var expected: [String] = []
    var found: [String] = []
    var byteCount = 0
    for _ in 0..<60 {
      var batch = IntakeBatch()
      for _ in 0..<Int.random(in: 0...40, using: &random) {
        guard let token = TokenBytes(bytes: random.bytes(32)) else { continue }
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

  @Test("of a notification that a run shares, the chunk gets the tokens only")
  func shared() throws {
    let chunk = AudienceChunk(entryLimit: 50, payloadCapacity: 200)
    var queue = QueuedNotifications()
    var batch = IntakeBatch()
    let notification = try Self.notification(#"{"aps":{}}"#, expiration: Date(timeIntervalSince1970: 4_000_000_000))
    for byte in UInt8(0)..<3 {
      batch.append(notification, try Self.token(byte))
    }
    for isShared in [false, true] {
      _ = queue.append(batch, batch.parts)
      chunk.removeAll()
      let (count, _) = queue.move(into: chunk, from: 1, isShared: isShared)
      #expect(count == 3)
      for index in 0..<3 {
        #expect(chunk.text(of: chunk[index]).hasPrefix("0\(index)0\(index)"))
        #expect(chunk.payloadText(of: chunk[index]) == (isShared ? "" : #"{"aps":{}}"#))
        #expect((chunk.ownHeaders(of: chunk[index]).expiration == nil) == isShared)
      }
    }
  }

  @Test("a notification that many devices get is a group of its own")
  func groups() throws {
    let text = #"{"aps":{}}"#
    let limit = PreparedNotification.sharedDeviceCount
    let many = try Self.notification(text, expiration: Date(timeIntervalSince1970: 4_000_000_000))
    #expect(many.group(with: limit - 1) == many.group)
    #expect(many.group(with: 1) == many.group)
    let shared = many.group(with: 1)
    #expect(shared.payload == Array(text.utf8))
    #expect(shared.campaign().payload == Array(text.utf8))
    #expect(shared.campaign().expiration == 4_000_000_000)
    #expect(many.group.payload == nil)
    #expect(many.group.campaign().payload.isEmpty)
    // Others have their own.
    let other = try Self.notification(text)
    #expect(other.group(with: limit) == other.group)
    #expect(other.group(with: 1) != shared)
    let named = try Self.notification(text, id: UUID())
    #expect(named.group(with: limit) == named.group)
    #expect(named.group(with: 1) == named.group)

    var batch = IntakeBatch()
    let token = try Self.token(1)
    for notification in [many, named, many, many, named] { batch.append(notification, token) }
    let groups = Dictionary(uniqueKeysWithValues: batch.grouped().map { ($0.group, $0.parts.map(\.range)) })
    #expect(groups == [shared: [0..<1, 2..<4], named.group: [1..<2, 4..<5]])
  }

  private static func token(_ byte: UInt8) throws -> TokenBytes {
    let token = TokenBytes(bytes: [UInt8](repeating: byte, count: 32))
    return try #require(token)
  }

  private func read(_ queue: inout QueuedNotifications, _ chunk: AudienceChunk, _ found: inout [String]) -> Int {
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
