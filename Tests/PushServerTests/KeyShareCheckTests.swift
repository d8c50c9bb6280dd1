internal import HTTPTypes
internal import Hummingbird
internal import Logging
internal import NIOEmbedded
internal import PushStore
internal import PushStoreSQLite
internal import Support
internal import Synchronization
internal import Testing

@testable internal import Carillon
@testable internal import PushServer
@testable internal import PushService

@Suite("Shares and rates of keys")
struct KeyShareCheckTests {
  private let place: Workplace
  private let access: ControlAccess
  private let key = APIKey.make()

  init() async throws {
    place = try Workplace()
    let store = try SQLiteStore(path: place.path("store.db"))
    _ = try await store.add(
      StoredKey(
        id: key.id, name: "test", digest: key.digest, scopes: [Scope.read.rawValue], reach: .all,
        createdAt: StoreInstant(milliseconds: 1)), by: nil)
    // The second request within hours is refused.
    access = ControlAccess(
      deployment: try Deployment(apps: []),
      keys: KeyRing(rate: 0.0001) { () async throws(StoreError) in try await store.keys() },
      settings: ServerConfiguration.API())
  }

  /// - Returns: the answer's status, and how often the request's own handler was called.
  private func ask(_ text: String?, shares: KeyShares) async throws -> (status: Int, handledCount: Int) {
    var head = HTTPRequest(method: .get, scheme: nil, authority: nil, path: "/v1/apps")
    head.headerFields[.authorization] = text.map { "Bearer \($0)" }
    let context = ControlContext(
      source: ApplicationRequestContextSource(channel: EmbeddedChannel(), logger: Logger(label: "test")))
    let count = Mutex(0)
    do {
      let response = try await KeyShareCheck(
        access: access, shares: shares, channels: OpenChannels(),
        sessions: DashboardSessions(store: SimulatedStore(StoreDisk()), clock: access.clock)
      ).handle(
        Request(head: head, body: RequestBody(buffer: .init())), context: context
      ) { request, context in
        count.withLock { $0 += 1 }
        _ = try await access.caller(request, context, .read)
        return Response(status: .ok)
      }
      return (response.status.code, count.withLock { $0 })
    } catch let problem as Problem {
      return (problem.status.code, count.withLock { $0 })
    }
  }

  @Test("a request counts once against its key's rate, and a refused one is not asked about again")
  func rate() async throws {
    let shares = KeyShares(maxConnections: 4)
    #expect(try await ask(key.text, shares: shares) == (200, 1))
    #expect(try await ask(key.text, shares: shares) == (429, 0))
  }

  @Test("without a valid key, the request's own handler refuses it, or serves it")
  func keyless() async throws {
    let shares = KeyShares(maxConnections: 4)
    #expect(try await ask(nil, shares: shares) == (401, 1))
    #expect(try await ask(APIKey.make().text, shares: shares) == (401, 1))
    #expect(try await ask(key.text, shares: shares) == (200, 1))
  }

  @Test("a key with its share under way is refused before its handler")
  func share() async throws {
    let shares = KeyShares(maxConnections: 1)
    let place = shares.take(key.id)
    #expect(place != nil)
    #expect(try await ask(key.text, shares: shares) == (429, 0))
    withExtendedLifetime(place) {}
  }
}
