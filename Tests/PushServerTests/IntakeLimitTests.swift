internal import Foundation
internal import PushTransport
internal import Support
internal import Testing

@testable internal import Carillon
@testable internal import PushServer
@testable internal import PushService

@Suite("Room in an app's queue")
struct IntakeLimitTests {
  private static func app(_ place: Workplace) throws -> PushApp {
    let key = place.path("key.p8")
    try ProviderKey.make(keyIdentifier: "ABC123DEFG", teamIdentifier: "DEF123GHIJ").write(to: key)
    let configuration = AppConfiguration(
      id: "news", topic: "com.example.news", transport: .http2(),
      credential: .tokenKey(file: key, keyID: "ABC123DEFG", teamID: "DEF123GHIJ"))
    return try Deployment(apps: [configuration]).app("news")
  }

  @Test("bodies that pass at the same time share the room: what one has taken, the next does not get")
  func reservation() throws {
    let app = try Self.app(try Workplace())
    let limit = IntakeLimit(queueByteCount: { _ in 100 }, isOpen: { true }, journalFailure: { nil })
    func isRefused() -> Bool {
      do {
        try limit.demandRoom(app)
        return false
      } catch let problem as Problem {
        return problem.title == "Queue full" && problem.retryAfter == 1
      } catch { return false }
    }
    // One body may be larger than the queue.
    var rooms: [IntakeLimit.Room] = [try limit.reserve(60, app), try limit.reserve(1_000, app)]
    #expect(isRefused())
    #expect(throws: Problem.self) { try limit.reserve(1, app) }
    // What is in the queue counts there.
    rooms[1].release()
    rooms[1].release()
    #expect(!isRefused())
    rooms.append(try limit.reserve(40, app))
    #expect(isRefused())
    // A body that was refused later has taken nothing.
    rooms.removeFirst()
    #expect(!isRefused())
    rooms.removeAll()
    for _ in 0..<3 { _ = try limit.reserve(1_000, app) }
  }

  @Test("nothing is taken in when the service ends, and when the journal has failed")
  func closed() throws {
    let app = try Self.app(try Workplace())
    for (isOpen, failure, title) in [
      (false, nil, "Service unavailable"), (true, "no space", "Not durable"), (true, nil, nil),
    ]
      as [(Bool, String?, String?)]
    {
      let limit = IntakeLimit(queueByteCount: { _ in 100 }, isOpen: { isOpen }, journalFailure: { failure })
      var found: String?
      do { _ = try limit.reserve(1, app) } catch { found = (error as? Problem)?.title }
      #expect(found == title)
    }
  }
}
