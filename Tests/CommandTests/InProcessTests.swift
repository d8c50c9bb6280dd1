internal import Foundation
internal import Support
internal import Synchronization
internal import Testing

@testable internal import PushServer

@Suite("the service in the test's own process", .timeLimit(.minutes(5)))
struct InProcessTests {
  private struct Left: Error {}

  @Test("what a test leaves when it fails has ended after it, and its journal and its ports are free")
  func failure() async throws {
    let left = Mutex<RunningServe?>(nil)
    await #expect(throws: Left.self) {
      try await InProcess().provideScope(for: try #require(Test.current), testCase: Test.Case.current) {
        let running = try await RunningServe()
        left.withLock { $0 = running }
        let sent = try await running.call("/v1/apps/news/notifications", body: ServeSite.body(HTTP2Site.token(1)))
        #expect(sent.status == 202, "\(sent.text)")
        throw Left()
      }
    }
    let running = try #require(left.withLock { $0 })
    #expect(running.service.process.hasEnded)
    #expect(running.upstream.simulator.hasEnded)
    #expect(!DiskState.isLocked(journal: running.serve.site.place.path("journal")))
    // Others get the same port, and the same journal.
    let next = try await running.serve.site.simulate(port: running.upstream.port)
    #expect(next.port == running.upstream.port)
    let service = try await running.serve.start()
    #expect(service.api.port != 0, "it is a process of its own")
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
    _ = try await running.serve.site.taken(next)
  }

  @Test("a request meets the same middleware as over a connection, and a stream ends with the service", .inProcess)
  func sameAnswers() async throws {
    let running = try await RunningServe()
    let reply = try await running.call("/v1/apps/none", headers: ["X-Request-Id": "mine"])
    #expect(reply.status == 404)
    #expect(reply.headers["content-type"] == "application/problem+json")
    #expect(reply.headers["x-request-id"]?.isEmpty == false)
    #expect(running.service.api.port == 0)
    let counted = Watched(0)
    try await withThrowingTaskGroup(of: Void.self) { tasks in
      tasks.addTask { try await running.events("/v1/events") { _ in counted.change { $0 += 1 } } }
      #expect(try await running.call("/v1/apps/news:pause", method: "POST").status == 202)
      await counted.wait { $0 > 0 }
      running.service.process.send(SIGTERM)
      try await tasks.waitForAll()
    }
    try await running.end()
  }
}
