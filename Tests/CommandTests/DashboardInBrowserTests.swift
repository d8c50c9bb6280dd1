internal import Foundation
internal import PushStore
internal import Support
internal import Testing

@Suite("The dashboard in Chromium", .timeLimit(.minutes(15)))
struct DashboardInBrowserTests {
  /// `ops/test` installs it.
  private static let hasBrowser =
    ["/usr/bin/chromium", "/usr/bin/chromedriver"].allSatisfy { FileManager.default.isExecutableFile(atPath: $0) }

  @Test(
    "every page fits and can be read; a test notification is sent, with scripts and without",
    .enabled(if: hasBrowser, "needs the Debian packages chromium and chromium-driver"))
  func pages() async throws {
    let scene = try await DashboardScene()
    let (serve, service) = (scene.serve, scene.service)
    let pages = DashboardScene.apps.filter { $0 != "news" }.map { "/apps/\($0)" } + scene.pages.values.sorted()
    let script = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "DashboardInBrowser.py")
    let tools = try Self.failingOnce(in: serve.site.place)
    let ending = try await ChildProcess.run(
      [script.path(percentEncoded: false), String(service.api.port), scene.key, "news", HTTP2Site.token(0xABCDE)]
        + pages,
      program: "python3", preparation: "PATH='\(tools)':$PATH exec timeout 600")
    #expect(ending.status == 0, "\(ending)")
    if ProcessInfo.processInfo.environment["CARILLON_SCREENSHOTS"] != nil { print(ending.output) }
    #expect(ending.output.contains("start 1 failed: chromedriver has ended: IPv6 port not available"), "\(ending)")
    await scene.end()
    let taken = try serve.site.place.read("truth.jsonl").components(separatedBy: HTTP2Site.token(0xABCDE)).count - 1
    #expect(taken == 2)
  }

  @Test(
    "the page of nodes fits and can be read, with nodes in every state",
    .enabled(if: hasBrowser, "needs the Debian packages chromium and chromium-driver"))
  func nodes() async throws {
    let scene = try await NodePair(more: "\nretention: 30h")
    let store = try scene.site.openStore()
    for (name, version) in [("n3", "0.0.9"), ("n4", "0.0.9")] {
      let joined = try #require(try await store.join(name, replacing: nil))
      var facts = NodeFacts()
      (facts.version, facts.clockOffset, facts.pendingCount) = (version, .milliseconds(-2_345), 12_345)
      _ = try await store.beat(of: joined, telling: facts)
      if name == "n4" { try await store.leave(joined) }
    }
    try await waitUntil("others have its place") { try await scene.node("n3").state == "lost" }
    _ = try await scene.run("drain", "n2")
    let script = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "DashboardInBrowser.py")
    let ending = try await ChildProcess.run(
      [
        script.path(percentEncoded: false), String(scene.first.service.api.port), scene.first.key, "", "", "/nodes",
        "/",
      ],
      program: "python3", preparation: "exec timeout 600")
    #expect(ending.status == 0, "\(ending)")
    try store.close()
    await NodePair.end(scene.second)
    try await scene.first.end()
  }

  /// A folder with a chromedriver that ends at its first start, as the real one does when its port
  /// is taken.
  private static func failingOnce(in place: Workplace) throws -> String {
    let folder = place.path("tools")
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    try place.write(
      """
      #!/bin/sh
      if mkdir "$0.started" 2>/dev/null; then echo 'IPv6 port not available. Exiting...'; exit 1; fi
      exec /usr/bin/chromedriver "$@"
      """, to: "tools/chromedriver")
    try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: "\(folder)/chromedriver")
    return folder
  }
}
