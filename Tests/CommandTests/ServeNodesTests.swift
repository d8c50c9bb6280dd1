internal import Foundation
internal import Support
internal import Testing

/// One of several services on a database serves.
@Suite("Several services on one database", .timeLimit(.minutes(5)))
struct ServeNodesTests {
  @Test("a second service waits; when the first is silent it serves, and the first ends as soon as it goes on")
  func takeover() async throws {
    let store = try ServeSite.store(in: try PostgreSQLServer.shared.get())
    var first = try await RunningServe { try $0.configure($1, more: store) }
    let site = try ServeSite()
    try site.configure(first.upstream, more: store)
    let arguments = ["serve", "--config", "carillon.yaml", "--json"]
    let second = try ChildProcess(arguments, directory: site.site.place.url)
    try await waitUntil("it waits", limit: .seconds(30)) { second.errors.contains("another service has the store") }
    // A first one that was killed has its journal's word that it has ended, and need not wait.
    try await first.restart()
    #expect(!first.service.process.errors.contains("another service has the store"))
    #expect(!second.errors.contains("this one takes its place"))
    first.service.process.send(SIGSTOP)
    let line = try #require(await second.line(0), "\(second.errors)")
    #expect(line.contains("\"api\""))
    #expect(second.errors.contains("this one takes its place"))
    first.service.process.send(SIGCONT)
    let ending = await first.service.process.ending()
    #expect(ending.status != 0)
    #expect(ending.errors.contains("has taken its place"), "\(ending)")
    let third = try ChildProcess(arguments, directory: first.serve.site.place.url)
    try await waitUntil("it waits, too", limit: .seconds(30)) { third.errors.contains("another service has the store") }
    second.send(SIGTERM)
    #expect(await second.ending().status == 0)
    // Whoever leaves need not become silent first.
    _ = try #require(await third.line(0), "\(third.errors)")
    third.send(SIGTERM)
    #expect(await third.ending().status == 0)
  }
}
