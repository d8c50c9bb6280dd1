internal import Foundation
internal import Support
internal import Testing

/// `carillon bench` as a user starts it, with short runs on this machine.
struct BenchTests {
  @Test(
    "a closed loop of a given number: every notification is confirmed and its latency counted, and the simulator agrees"
  )
  func closedLoop() async throws {
    let ending = try await ChildProcess.run([
      "bench", "--count", "3000", "--connections", "2", "--payload", "100", "--json",
    ])
    #expect(ending.status == 0, "\(ending)")
    let report = try BenchReport(ending)
    #expect(report.target == "simulator", "\(ending)")
    #expect(report.complete, "\(ending)")
    #expect(report.agreesWithSimulator == true, "\(ending)")
    #expect(report.simulatorAccepted == 3000, "\(ending)")
    let point = try #require(report.points.first)
    #expect(report.points.count == 1)
    #expect(report.swept.isEmpty)
    #expect(point.settings.connections == 2)
    #expect(point.settings.payloadBytes == 100)
    #expect(point.settings.rate == nil)
    #expect(point.settings.batchBytes == 65_536)
    #expect(point.notifications == 3000, "\(ending)")
    #expect(point.account.submitted == 3000, "\(ending)")
    #expect(point.account.confirmed == 3000, "\(ending)")
    #expect(point.account.quiet == 0, "\(ending)")
    let socket = try #require(point.latencyMicroseconds.toSocket)
    let answer = try #require(point.latencyMicroseconds.toAnswer)
    #expect(socket.count == 3000, "\(ending)")
    #expect(answer.count == 3000, "\(ending)")
    #expect(socket.p50 > 0, "\(ending)")
    #expect(socket.p50 <= socket.p90, "\(ending)")
    #expect(socket.p90 <= socket.p99, "\(ending)")
    #expect(socket.p99 <= socket.max, "\(ending)")
    #expect(answer.max >= socket.p50, "a response before the notification was sent")
    // Token 32, payload 100, and 29 bytes of items around them.
    #expect(abs(point.batches.bytes / point.batches.notifications - 161) < 0.1, "\(point.batches)")
    #expect(point.batches.fill > 0)
    #expect(point.batches.fill <= 1)
    #expect(point.bytesPerTLSRecord <= 16_384)
    #expect(point.bytesPerTLSRecord > 100)
    #expect(point.perSecond > 0)
    #expect(point.cpuMicrosecondsPerNotification.user + point.cpuMicrosecondsPerNotification.system > 0)
    #expect(point.peakMemoryBytes > 1 << 20)
  }

  @Test("with latency responses take at least the round trip, and the simulators agree with the account")
  func latency() async throws {
    let ending = try await ChildProcess.run(["bench", "--count", "500", "--latency", "0ms,100ms", "--json"])
    #expect(ending.status == 0, "\(ending)")
    let report = try BenchReport(ending)
    #expect(report.complete, "\(ending)")
    #expect(report.agreesWithSimulator == true, "\(ending)")
    #expect(report.simulatorAccepted == 1000, "\(ending)")
    #expect(report.swept == ["latency"], "\(ending)")
    #expect(report.points.map(\.settings.latencyMilliseconds) == [0, 100])
    // Two round trips until the first frame may leave, and one until the probe is answered.
    #expect(report.points.last.map { $0.seconds >= 0.3 } == true, "\(ending)")
  }

  @Test("an open loop of several apps keeps its rate, and its page is self-contained", arguments: ["binary", "http2"])
  func openLoop(transport: String) async throws {
    let place = try Workplace()
    let ending = try await ChildProcess.run(
      [
        "bench", "--transport", transport, "--rate", "200,1000", "--apps", "3", "--duration", "500ms", "--warm-up",
        "100ms", "--json", "--html", "bench.html",
      ],
      directory: place.url)
    #expect(ending.status == 0, "\(ending)")
    let report = try BenchReport(ending)
    #expect(report.swept == ["rate"], "\(ending)")
    #expect(report.points.map(\.settings.rate) == [200, 1000], "\(ending)")
    #expect(report.agreesWithSimulator == true, "\(ending)")
    for point in report.points {
      let rate = try #require(point.settings.rate)
      // Latencies count for what was due in the half second, whether it was written early or late.
      // So the clock determines their number, to within one.
      let due = try #require(point.latencyMicroseconds.toSocket).count
      #expect(abs(due - Int(rate / 2)) <= 3, "\(due) of \(rate) per second")
      // Over HTTP/2 every notification has a response of its own.
      if transport == "http2" { #expect(point.latencyMicroseconds.toAnswer?.count == due, "\(ending)") }
      #expect(point.neverSent == 0)
      #expect(point.account.unknown == 0)
      #expect(point.account.cancelled == 0)
    }
    let page = try place.read("bench.html")
    #expect(page.hasPrefix("<!DOCTYPE html>"))
    #expect(page.contains("<svg"))
    #expect(page.contains("</html>"))
    for reference in ["http:", "https:", "<script", "<link", "url(", "src=", "@import"] {
      #expect(!page.contains(reference), "\(reference)")
    }
  }

  @Test("a trickle beside a full load is measured separately")
  func trickle() async throws {
    let ending = try await ChildProcess.run([
      "bench", "--trickle", "100", "--window", "2000", "--duration", "500ms", "--warm-up", "100ms", "--json",
    ])
    #expect(ending.status == 0, "\(ending)")
    let report = try BenchReport(ending)
    let point = try #require(report.points.first)
    let trickle = try #require(point.latencyMicroseconds.trickleToSocket)
    #expect(abs(trickle.count - 50) <= 1, "\(ending)")
    #expect(point.notifications > trickle.count, "\(ending)")
    #expect(report.agreesWithSimulator == true, "\(ending)")
  }

  @Test("flags direct the load to the user's own gateway")
  func gateway() async throws {
    let place = try Workplace()
    let certificates = try CertificateFixture(in: place)
    let simulator = try ChildProcess(
      ["simulate", "--gateway-port", "0", "--feedback-port", "0", "--json"] + certificates.server, directory: place.url)
    let line = try #require(await simulator.line(0), "the simulator did not start")
    let port = try String(#require(line.firstMatch(of: /"gateway":(\d+)/)).1)
    let ending = try await ChildProcess.run(
      ["bench", "--count", "500", "--gateway", "localhost:\(port)", "--json"] + certificates.client)
    simulator.send(SIGTERM)
    let truth = await simulator.ending()
    #expect(ending.status == 0, "\(ending)")
    let report = try BenchReport(ending)
    #expect(report.target == "localhost:\(port)", "\(ending)")
    #expect(report.simulatorAccepted == nil, "\(ending)")
    #expect(report.points.first?.account.confirmed == 500, "\(ending)")
    #expect(truth.output.contains("\"accepted\":500,"), "\(truth)")
  }

  @Test("the table shows the settings that vary, and a run that fails gives one sentence")
  func table() async throws {
    let ending = try await ChildProcess.run(["bench", "--count", "200", "--batch", "1,64KiB"])
    #expect(ending.status == 0, "\(ending)")
    let lines = ending.output.split(separator: "\n").map(String.init)
    #expect(
      lines.first?.hasPrefix(
        "Built-in simulator on this machine, binary protocol, command 2; apps 1, connections 1, payload 200, rate max")
        == true)
    #expect(
      lines.contains { $0.contains("batch") && $0.contains("CPU user+system") && $0.contains("to socket p50") },
      "\(ending)")
    #expect(ending.output.contains("exactly as many as the accounts say"), "\(ending)")
    #expect(ending.errors.contains("[2/2] batch 64KiB: "), "\(ending)")

    let place = try Workplace()
    let certificates = try CertificateFixture(in: place)
    // No program listens on port 1.
    let dead = try await ChildProcess.run(
      ["bench", "--count", "200", "--gateway", "127.0.0.1:1"] + certificates.client)
    #expect(dead.status == 3, "\(dead)")
    #expect(dead.output.isEmpty, "\(dead)")
    #expect(dead.errors.contains("carillon: the load test failed: cannot connect to 127.0.0.1:1"), "\(dead)")
  }

  @Test("an interrupted run reports what it has measured, and leaves no process and no files")
  func interrupted() async throws {
    let place = try Workplace()
    // Too long to end by itself while this test waits for a thread.
    let bench = try ChildProcess(
      ["bench", "--duration", "1h", "--warm-up", "0s", "--rate", "100", "--json"], directory: place.url)
    try await waitUntil("the benchmark has started its simulator") { bench.errors.contains("simulator") }
    bench.send(SIGINT)
    let ending = await bench.ending()
    #expect(ending.status == 1, "\(ending)")
    #expect(try BenchReport(ending).complete == false, "\(ending)")
    #expect(try BenchReport(ending).agreesWithSimulator == true, "\(ending)")
  }

  @Test("a simulator ends with its standard input on request")
  func endOfInput() async throws {
    let ending = try await ChildProcess.run([
      "simulate", "--gateway-port", "0", "--feedback-port", "0", "--json", "--until-input-ends",
    ])
    #expect(ending.status == 0, "\(ending)")
    #expect(ending.output.contains("\"stopped\""), "\(ending)")
  }

  @Test(
    "a wrong flag gives one sentence and exit status 2",
    arguments: [
      (["--gateway", "gateway.push.apple.com:2195"], "gateway.push.apple.com is Apple's"),
      (["--gateway", "17.1.2.3:2195"], "17.1.2.3 is in Apple's network"),
      (["--gateway", "h"], "--gateway must be HOST:PORT"),
      (["--gateway", "127.0.0.1:1"], "A credential is missing: --certificate FILE"),
      (["--certificate", "c"], "--certificate needs --gateway"),
      (["--apps", "0"], "--apps must be from 1 to 1000, not 0"),
      (["--apps", "1,1"], "--apps has the value 1 twice"),
      (["--connections", "two"], "--connections must be a value or a list such as 1,10,100, not \"two\""),
      (["--batch", "17MiB"], "--batch must be from 1 byte"),
      (["--batch", "4 bananas"], "--batch must be a value or a list such as 4KiB,64KiB"),
      (["--payload", "19"], "--payload must be from 20 to 2048, not 19"),
      (["--payload", "300", "--command", "1"], "--payload must be from 20 to 256, not 300"),
      (["--rate", "fast"], "--rate must be a value or a list such as 100,10000,max"),
      (["--rate", "0"], "--rate must be"),
      (["--trickle", "max"], "--trickle must be a number per second"),
      (["--trickle", "5", "--count", "5"], "--trickle and --count exclude each other"),
      (["--transport", "pigeon"], "--transport must be a value or a list such as binary,http2, not \"pigeon\""),
      (["--command", "3"], "--command must be 0, 1 or 2"),
      (["--duration", "0s"], "--duration must be a duration from 100ms to 1h"),
      (["--duration", "1s", "--count", "5"], "--duration and --count exclude each other"),
      (["--count", "0"], "--count must be from 1"),
      (["--warm-up", "x"], "--warm-up must be a duration"),
      (["--batch-delay", "1m"], "--batch-delay must be a duration from"),
      (["--window", "0"], "--window must be from 1"),
      (["--settle-quiet", "1ms"], "--settle-quiet must be a duration from 10ms to 1h"),
      (["--threads", "0"], "--threads must be from 1 to 256"),
      (["--confirm", "maybe"], "maybe"),
      (["--html", "/nowhere/at/all.html"], "--html: /nowhere/at/all.html cannot be written"), (["--bogus"], "--bogus"),
    ])
  func wrongFlags(arguments: [String], expected: String) async throws {
    expectOneSentence(try await ChildProcess.run(["bench"] + arguments), status: 2, containing: expected)
  }
}
