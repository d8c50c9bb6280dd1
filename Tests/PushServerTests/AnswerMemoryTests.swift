internal import Foundation
internal import HTTPTypes
internal import Hummingbird
internal import Logging
internal import NIOCore
internal import NIOEmbedded
internal import PushStore
internal import PushStoreSQLite
internal import Support
internal import Testing

@testable internal import Carillon
@testable internal import PushServer
@testable internal import PushService

@Suite("Memory of answers")
struct AnswerMemoryTests {
  private static func context(_ key: String) -> ControlContext {
    var context = ControlContext(
      source: ApplicationRequestContextSource(channel: EmbeddedChannel(), logger: Logger(label: "test")))
    context.caller = Caller(
      StoredKey(id: key, name: "", digest: [], scopes: ["read"], reach: .all, createdAt: StoreInstant(milliseconds: 1)))
    return context
  }

  private static func isRefused(_ context: ControlContext, _ byteCount: Int) -> Bool {
    do {
      _ = try context.answerRoom(byteCount)
      return false
    } catch {
      return (error as? Problem)?.status == .tooManyRequests
    }
  }

  private struct Sink: ResponseBodyWriter {
    func write(_ buffer: ByteBuffer) async throws {}
    consuming func finish(_ trailingHeaders: HTTPFields?) async throws {}
  }

  @Test("a key's answers end at its share until they were sent, and another key's have room")
  func shares() throws {
    let (one, other) = (Self.context(UUID().uuidString), Self.context(UUID().uuidString))
    let first = try one.answerRoom(20 << 20)
    var second: MemoryRoom? = try one.answerRoom(30 << 20)
    #expect(second != nil)
    #expect(Self.isRefused(one, 10 << 20))
    #expect(!Self.isRefused(other, 10 << 20))
    second = nil
    #expect(!Self.isRefused(one, 30 << 20))
    withExtendedLifetime(first) {}
  }

  @Test("whatever a request answers at once counts until the answer was written")
  func written() async throws {
    let place = try Workplace()
    let store = try SQLiteStore(path: place.path("store.db"))
    let key = APIKey.make()
    _ = try await store.add(
      StoredKey(
        id: key.id, name: "", digest: key.digest, scopes: ["read"], reach: .all,
        createdAt: StoreInstant(milliseconds: 1)), by: nil)
    let access = ControlAccess(
      deployment: try Deployment(apps: []), keys: KeyRing { () async throws(StoreError) in try await store.keys() },
      settings: ServerConfiguration.API())
    var head = HTTPRequest(method: .get, scheme: nil, authority: nil, path: "/v1/apps")
    head.headerFields[.authorization] = "Bearer \(key.text)"
    let context = Self.context(key.id)
    var response: Response? = try await KeyShareCheck(
      access: access, shares: KeyShares(maxConnections: 100), channels: OpenChannels(),
      sessions: DashboardSessions(store: store, clock: access.clock)
    ).handle(
      Request(head: head, body: RequestBody(buffer: .init())), context: context
    ) { _, _ in
      Response(status: .ok, body: ResponseBody(byteBuffer: ByteBuffer(repeating: 0, count: 40 << 20)))
    }
    #expect(response?.body.contentLength == 40 << 20)
    #expect(Self.isRefused(context, 30 << 20))
    try await response?.body.write(Sink())
    response = nil
    #expect(!Self.isRefused(context, 30 << 20))
    try store.close()
  }

  @Test("a body counts until its request was answered, once, however often it is read")
  func bodies() async throws {
    let key = UUID().uuidString
    var context: ControlContext? = Self.context(key)
    let head = HTTPRequest(method: .post, scheme: nil, authority: nil, path: "/v1/apps")
    for _ in 0..<2 {
      let request = Request(head: head, body: RequestBody(buffer: ByteBuffer(repeating: 0, count: 40 << 20)))
      let body = try await request.wholeBody(
        limit: 64 << 20, allowance: .seconds(60), owner: key, clock: MachineClock(), until: context?.memory)
      #expect(body.count == 40 << 20)
    }
    #expect(Self.isRefused(Self.context(key), 30 << 20))
    context = nil
    #expect(!Self.isRefused(Self.context(key), 30 << 20))
  }
}
