internal import Foundation
internal import Support
internal import Testing

/// `carillon bench` over HTTP/2, with short runs on this machine.
struct BenchHTTP2Tests {
  @Test("every response has a latency, batches have at most as many requests as streams, and the simulator agrees")
  func closedLoop() async throws {
    let ending = try await ChildProcess.run(
      [
        "bench", "--transport", "http2", "--streams", "100,7", "--count", "2000", "--connections", "2", "--payload",
        "3000", "--json",
      ])
    #expect(ending.status == 0, "\(ending)")
    let report = try BenchReport(ending)
    #expect(report.transport == "http2", "\(ending)")
    #expect(report.command == nil, "\(ending)")
    #expect(report.swept == ["streams"], "\(ending)")
    #expect(report.complete, "\(ending)")
    #expect(report.agreesWithSimulator == true, "\(ending)")
    #expect(report.simulatorAccepted == 4000, "\(ending)")
    #expect(report.points.map(\.settings.streams) == [100, 7])
    #expect(report.points.allSatisfy { $0.settings.transport == "http2" && $0.settings.connections == 2 })
    for point in report.points {
      #expect(point.notifications == 2000, "\(ending)")
      #expect(point.account.confirmed == 2000, "\(ending)")
      #expect(point.account.resent == 0, "\(ending)")
      let socket = try #require(point.latencyMicroseconds.toSocket)
      let answer = try #require(point.latencyMicroseconds.toAnswer)
      #expect(socket.count == 2000, "\(ending)")
      #expect(answer.count == 2000, "\(ending)")
      #expect(answer.max >= socket.p50, "\(ending)")
      #expect(point.batches.notifications <= Double(point.settings.streams ?? 0), "\(point.batches)")
    }
  }

  @Test("both transports are measured in one run, and the table names them")
  func bothTransports() async throws {
    let place = try Workplace()
    let ending = try await ChildProcess.run(
      ["bench", "--transport", "binary,http2", "--streams", "50", "--count", "500", "--html", "bench.html"],
      directory: place.url)
    #expect(ending.status == 0, "\(ending)")
    let lines = ending.output.split(separator: "\n").map(String.init)
    let headline = "binary protocol, command 2 and HTTP/2; apps 1, connections 1, streams 50, batch 64KiB"
    #expect(lines.first?.contains(headline) == true, "\(ending)")
    #expect(lines.contains { $0.hasPrefix("transport") }, "\(ending)")
    #expect(lines.contains { $0.hasPrefix("   binary") }, "\(ending)")
    #expect(lines.contains { $0.hasPrefix("    http2") }, "\(ending)")
    #expect(ending.output.contains("accepted 1,000 notifications, exactly as many as the accounts say"), "\(ending)")
    #expect(ending.errors.contains("[1/2] transport binary: "), "\(ending)")
    #expect(ending.errors.contains("[2/2] transport http2: "), "\(ending)")
    #expect(try place.read("bench.html").contains("By transport"))
  }

  @Test("a load test of the user's own service works by certificate and by token key; an unknown key stops the run")
  func gateway() async throws {
    let site = try HTTP2Site()
    let service = try await site.simulate()
    let gateway = [
      "bench", "--transport", "http2", "--count", "300", "--json", "--gateway", "localhost:\(service.port)",
    ]
    let byCertificate = try await site.run(gateway + site.certificates.client)
    let byKey = try await site.run(gateway + site.key)
    let byStranger = try await site.run(gateway + site.key + ["--key-id", "ZZZ123DEFG"])
    let taken = try await site.taken(service)
    for ending in [byCertificate, byKey] {
      #expect(ending.status == 0, "\(ending)")
      let report = try BenchReport(ending)
      #expect(report.target == "localhost:\(service.port)", "\(ending)")
      #expect(report.simulatorAccepted == nil, "\(ending)")
      #expect(report.points.first?.account.confirmed == 300, "\(ending)")
    }
    #expect(byStranger.status == 3, "\(byStranger)")
    #expect(byStranger.output.isEmpty, "\(byStranger)")
    #expect(byStranger.errors.contains("InvalidProviderToken"), "\(byStranger)")
    #expect(taken.count == 600)
    #expect(taken.allSatisfy { $0.topic == HTTP2Site.topic && $0.type == "alert" })
  }

  @Test(
    "a flag that does not fit the transport gives one sentence and exit status 2",
    arguments: [
      (["--transport", "http2,http2"], "--transport has the value http2 twice"),
      (["--transport", "http2", "--command", "1"], "--command needs --transport binary"),
      (["--transport", "http2", "--window", "9"], "--window needs"),
      (["--transport", "http2", "--confirm", "quiet"], "--confirm needs"),
      (["--transport", "http2", "--settle-quiet", "1s"], "--settle-quiet needs"),
      (["--streams", "10"], "--streams needs --transport http2"),
      (["--topic", "t"], "--topic needs --transport http2"),
      (["--token-key", "k"], "--token-key needs --transport http2"),
      (["--transport", "http2", "--streams", "0"], "--streams must be from 1 to 65535"),
      (["--transport", "http2", "--streams", "65536"], "--streams must be from 1 to 65535, not 65536"),
      (
        ["--transport", "binary,http2", "--streams", "1,2"],
        "--streams can have several values only if http2 is the first transport"
      ),
      (["--transport", "binary,http2", "--payload", "3000"], "--payload must be from 20 to 2048"),
      (["--transport", "http2", "--payload", "4097"], "--payload must be from 20 to 4096"),
      (["--transport", "http2", "--topic", "t"], "--topic needs --gateway"),
      (
        ["--transport", "binary,http2", "--gateway", "127.0.0.1:1", "--certificate", "c"],
        "--gateway needs one --transport"
      ),
      (
        ["--transport", "http2", "--gateway", "127.0.0.1:1"],
        "A credential is missing: --certificate FILE or --token-key FILE"
      ),
      (
        ["--transport", "http2", "--gateway", "127.0.0.1:1", "--token-key", "k", "--certificate", "c"],
        "--certificate and --token-key exclude each other"
      ),
      (["--transport", "http2", "--gateway", "127.0.0.1:1", "--token-key", "k"], "--token-key needs --team-id ID"),
      (
        ["--transport", "http2", "--gateway", "127.0.0.1:1", "--certificate", "c", "--team-id", "t"],
        "--team-id needs --token-key FILE"
      ),
      (
        ["--transport", "http2", "--gateway", "api.push.apple.com:443", "--certificate", "c"],
        "api.push.apple.com is Apple's"
      ),
      (
        ["--transport", "http2", "--gateway", "api.sandbox.push.apple.com:2197", "--certificate", "c"],
        "api.sandbox.push.apple.com is Apple's"
      ),
      (
        ["--transport", "http2", "--gateway", "api-manage-broadcast.push.apple.com:2196", "--certificate", "c"],
        "api-manage-broadcast.push.apple.com is Apple's"
      ),
    ])
  func wrongFlags(arguments: [String], expected: String) async throws {
    expectOneSentence(try await ChildProcess.run(["bench"] + arguments), status: 2, containing: expected)
  }
}
