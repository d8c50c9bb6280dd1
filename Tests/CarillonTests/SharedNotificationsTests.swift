internal import Foundation
internal import PushTransport
internal import PushWire
internal import Support
internal import Testing

@testable internal import Carillon

@Suite("Notifications as bytes for another node")
struct SharedNotificationsTests {
  private static func app(_ transport: AppConfiguration.Transport) -> AppConfiguration {
    AppConfiguration(
      id: "news", topic: "com.example.news", transport: transport, credential: .certificate(file: ""))
  }

  /// With the headers of one run.
  private static func random(
    _ random: inout SeededGenerator, isHTTP2: Bool, isLong: Bool
  ) throws -> PreparedNotification {
    var notification = PushNotification(alert: "\(random.next())")
    notification.priority = .consideringDevicePower
    let expiration = Date(timeIntervalSince1970: 4_000_000_000)
    if isLong || random.chance(50) { notification.expiration = .at(expiration) }
    if isHTTP2 {
      if random.chance(30) { notification.id = UUID() }
      // So long that there is no room for the expiration beside it.
      if isLong || random.chance(30) { notification.collapseID = String(repeating: "c", count: isLong ? 64 : 3) }
    }
    return try PreparedNotification(
      notification, payload: notification.json, app: app(isHTTP2 ? .http2() : .binary()), kind: .token, now: 0)
  }

  @Test("they come back as they were, also when blocks are joined", arguments: [false, true], [false, true])
  func roundTrip(isHTTP2: Bool, isLong: Bool) throws {
    let seed = SeededGenerator.freshSeed()
    var random = SeededGenerator(seed: seed)
    for _ in 0..<50 {
      var all: [(PreparedNotification, DeviceToken)] = []
      for _ in 0..<Int.random(in: 1...5, using: &random) {
        let notification = try Self.random(&random, isHTTP2: isHTTP2, isLong: isHTTP2 && isLong)
        for _ in 0..<Int.random(in: 1...4, using: &random) {
          all.append((notification, try DeviceToken(bytes: random.bytes(Int.random(in: 1...100, using: &random)))))
        }
      }
      let cut = Int.random(in: 0...all.count, using: &random)
      let (first, second) = (SharedNotifications(all.prefix(cut)), SharedNotifications(all.dropFirst(cut)))
      let common = cut == 0 ? second.common : first.common
      let found = try SharedNotifications.notifications(common: common, first.bytes + second.bytes)
      #expect(found.map(\.1) == all.map(\.1.wire), "seed \(seed)")
      for (one, other) in zip(found.map(\.0), all.map(\.0)) {
        #expect(one.payload == other.payload, "seed \(seed)")
        #expect(one.group == other.group, "seed \(seed)")
        #expect(one.collapseID == other.collapseID, "seed \(seed)")
        #expect(one.identifier == other.identifier, "seed \(seed)")
        #expect(one.expiration == other.expiration, "seed \(seed)")
      }
    }
  }

  @Test("random and torn bytes are refused, or are notifications with tokens that can be")
  func hostile() throws {
    let seed = SeededGenerator.freshSeed()
    var random = SeededGenerator(seed: seed)
    let sound = SharedNotifications(
      try (0..<20).map { _ in
        (try Self.random(&random, isHTTP2: true, isLong: false), try DeviceToken(bytes: random.bytes(32)))
      })
    var refusedCount = 0
    for _ in 0..<5_000 {
      var (common, bytes) = (sound.common, sound.bytes)
      switch Int.random(in: 0..<3, using: &random) {
      case 0: bytes = random.bytes(Int.random(in: 0...200, using: &random))
      case 1: bytes.removeLast(Int.random(in: 1...bytes.count, using: &random))
      default:
        common = random.bytes(Int.random(in: 0...40, using: &random))
        bytes[Int.random(in: bytes.indices, using: &random)] ^= UInt8.random(in: 1...255, using: &random)
      }
      do {
        _ = try SharedNotifications.notifications(common: common, bytes)
      } catch { refusedCount += 1 }
    }
    #expect(refusedCount > 1_000, "seed \(seed)")
  }
}
