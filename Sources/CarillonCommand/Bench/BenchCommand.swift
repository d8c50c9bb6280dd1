internal import ArgumentParser
internal import Carillon
internal import Foundation
internal import PushBench
internal import PushWire
internal import Synchronization

struct BenchCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "bench",
    abstract: "Finds out what the engine and a gateway can do: throughput, CPU, latencies, memory.",
    discussion: """
      Without --gateway it loads the built-in simulator, which runs in a process of its own on this machine.

        carillon bench
        carillon bench --connections 1,2,4,8 --html bench.html
        carillon bench --rate 100,10000,1000000,max --duration 10s
        carillon bench --apps 1,10,100 --payload 100,200,1000 --json
        carillon bench --trickle 100 --duration 10s
        carillon bench --transport http2,binary --streams 10,100,1000
        carillon bench --latency 0ms,20ms,100ms --html bench.html
        carillon bench --gateway gateway.example.com:2195 --trust ca.pem \\
          --certificate news.pem --key news.key --connections 4

      The first value of each list is the base; every other value is measured with the rest at the base, so --apps \
      1,10 --payload 100,200 makes three points.

      A closed loop (--rate max) hands over as much as the engine takes: it finds the limit, and its latencies are \
      those of full queues. An open loop (--rate N) hands \
      over by the clock: latency counts from the moment a notification was due, so that a sender that falls behind \
      cannot hide it. The way to the socket ends when a \
      batch is encrypted and handed over; the way to the answer when an answer tells the notification's fate. Over \
      HTTP/2 each request has one; the binary protocol is \
      silent on success, and there it is mostly the answer to a probe.

      With --gateway it speaks one transport, as whoever a certificate or, over HTTP/2, a token key says.

      Apple's hosts are refused: load tests against them are abuse.

      Exit status: 0 measured, 1 interrupted or the account differs from the simulator's, 2 wrong flags or files, \
      3 it could not run.
      """)

  @Option(help: .init("A gateway of your own to load (default: the built-in simulator).", valueName: "host:port"))
  var gateway: String?
  @OptionGroup var identity: IdentityOptions
  @Option(help: .init("Apps, 1 to 1000, each with its own connections.", valueName: "n,…")) var apps = "1"
  @Option(help: .init("Connections of each app, 1 to 1000.", valueName: "n,…")) var connections = "1"
  @Option(help: .init("The most bytes in one write; 1 writes each frame alone.", valueName: "size,…")) var batch =
    "64KiB"
  @Option(help: .init("Payload sizes, in bytes.", valueName: "n,…")) var payload = "200"
  @Option(help: .init("Notifications per second over all apps; max is as fast as possible.", valueName: "n|max,…"))
  var rate = "max"
  @Option(
    help: .init(
      "The round trip to the built-in simulator, TCP's and TLS's handshakes included; see simulate --help "
        + "(default: 0ms).", valueName: "time,…")) var latency: String?
  @Option(
    help: .init(
      "One more app, which sends so many per second meanwhile: its latency shows what the others leave it "
        + "(default: none).", valueName: "n")) var trickle: String?
  @Option(help: .init("What is spoken: the binary protocol, the HTTP/2 provider API.", valueName: "binary|http2,…"))
  var transport = "binary"
  @Option(help: .init("Over HTTP/2: requests in flight on one connection, at most (default: 1000).", valueName: "n,…"))
  var streams: String?
  @OptionGroup var provider: BenchProviderFlags
  @Option(help: .init("The frame layout of the binary protocol, 0, 1 or 2 (default: 2).", valueName: "n"))
  var command: Int?
  @Option(help: .init("How long each point is measured (default: 5s).", valueName: "time")) var duration: String?
  @Option(help: .init("How long each point runs before it is measured (default: 1s).", valueName: "time"))
  var warmUp: String?
  @Option(
    help: .init("Measure so many notifications instead, from the first connection to the last outcome.", valueName: "n")
  ) var count: Int?
  @Option(help: .init("How long a frame may wait for company.", valueName: "time")) var batchDelay = "5ms"
  @Option(help: .init("The most unsettled notifications on one binary connection (default: 262144).", valueName: "n"))
  var window: Int?
  @Option(
    help: .init(
      "How the last binary notifications are settled: by a probe or by silence (default: probe).",
      valueName: "probe|quiet")) var confirm: LanePolicy.Confirm?
  @Option(help: .init("How long silence must last to mean acceptance (default: 5s).", valueName: "time"))
  var settleQuiet: String?
  @Option(help: .init("Threads of the sender (default: one per core).", valueName: "n")) var threads: Int?
  @Flag(help: "The results as one JSON object on standard output.") var json = false
  @Option(help: .init("Writes one self-contained page with plots.", valueName: "file")) var html: String?

  /// What the flags say.
  func plan() throws -> BenchPlan {
    var plan = BenchPlan()
    plan.sweep.apps = try BenchFlags.counts(apps, flag: "--apps", in: 1...1000)
    plan.sweep.connections = try BenchFlags.counts(connections, flag: "--connections", in: 1...1000)
    plan.sweep.batchByteCounts = try BenchFlags.batches(batch)
    plan.sweep.rates = try BenchFlags.rates(rate, flag: "--rate", example: "100,10000,max")
    if let latency {
      guard gateway == nil else {
        throw ValidationError(
          "--latency needs the built-in simulator, and --gateway names another gateway; leave one of them out.")
      }
      plan.sweep.latencies = try BenchFlags.latencies(latency)
    }
    try planTransports(&plan)
    plan.extent = try extent()
    if let trickle {
      guard count == nil else {
        throw ValidationError("--trickle and --count exclude each other: a trickle has a time, not a number.")
      }
      guard let rate = try BenchFlags.rates(trickle, flag: "--trickle", example: "100").first ?? nil else {
        throw ValidationError("--trickle must be a number per second, not \"\(trickle)\".")
      }
      plan.trickle = rate
    }
    plan.batchDelay = try BenchFlags.duration(batchDelay, flag: "--batch-delay", in: .zero ... .seconds(10))
    plan.threads = threads ?? ProcessInfo.processInfo.activeProcessorCount
    guard (1...256).contains(plan.threads) else {
      throw ValidationError("--threads must be from 1 to 256, not \(plan.threads).")
    }
    plan.target = try target(plan.sweep.transports)
    return plan
  }

  /// What is spoken, and what belongs to one transport only.
  private func planTransports(_ plan: inout BenchPlan) throws {
    let spoken = try BenchTransports(transport)
    plan.sweep.transports = spoken.transports
    plan.sweep.streams = try spoken.streams(streams)
    try spoken.refuseWithoutHTTP2(provider.given)
    try spoken.refuseWithoutBinary([
      ("--command", command != nil), ("--window", window != nil), ("--confirm", confirm != nil),
      ("--settle-quiet", settleQuiet != nil),
    ])
    if let command { plan.command = try Options.command(command) }
    if let window {
      guard (1...262_144).contains(window) else {
        throw ValidationError("--window must be from 1 to 262144, not \(window).")
      }
      plan.windowCount = window
    }
    plan.settle.confirm = confirm ?? .probe
    plan.settle.quiet = try BenchFlags.duration(
      settleQuiet ?? "5s", flag: "--settle-quiet", in: .milliseconds(10) ... .seconds(3600))
    let limits = plan.sweep.transports.map {
      $0 == .http2 ? PushType.alert.payloadLimit : plan.command.payloadLimitDefault
    }
    plan.sweep.payloadByteCounts = try BenchFlags.counts(
      payload, flag: "--payload", in: BenchPayload.leastByteCount...(limits.min() ?? 256))
  }

  private func extent() throws -> BenchPlan.Extent {
    guard let count else {
      return .duration(
        try BenchFlags.duration(duration ?? "5s", flag: "--duration", in: .milliseconds(100) ... .seconds(3600)),
        warmUp: try BenchFlags.duration(warmUp ?? "1s", flag: "--warm-up", in: .zero ... .seconds(600)))
    }
    for (flag, value) in [("--duration", duration), ("--warm-up", warmUp)] where value != nil {
      throw ValidationError("\(flag) and --count exclude each other: --count measures from beginning to end.")
    }
    guard (1...1_000_000_000).contains(count) else {
      throw ValidationError("--count must be from 1 to 1000000000, not \(count).")
    }
    return .count(count)
  }

  private func target(_ transports: [AppSettings.Transport]) throws -> BenchPlan.Target {
    try identity.check()
    guard let gateway else {
      let given =
        [("--certificate", identity.certificate), ("--trust", identity.trust)].compactMap { $1 == nil ? nil : $0 }
        + provider.given
      if let flag = given.first {
        throw ValidationError("\(flag) needs --gateway; the built-in simulator brings its own certificates.")
      }
      return .simulator
    }
    let endpoint = try Options.endpoint(gateway, flag: "--gateway")
    if let refusal = AppleHosts.refusal(of: endpoint.host) { throw CommandFailure.usage("--gateway: \(refusal)") }
    guard transports.count == 1 else {
      throw ValidationError(
        "--gateway takes one --transport at a time: a gateway has a port for each, and only one was named.")
    }
    try provider.key.check(hasCertificate: identity.certificate != nil, hasTopic: provider.topic != nil)
    guard identity.certificate != nil || provider.key.tokenKey != nil else {
      throw ValidationError(
        transports == [.http2]
          ? "--certificate FILE or --token-key FILE must say who sends." : "--certificate FILE must say who sends.")
    }
    return .gateway(endpoint)
  }

  func run() async throws {
    let plan = try plan()
    // Found out before the measuring, not after it.
    let page = try html.map(BenchPageFile.init)
    let credential = provider.key.file.map(AppCredential.tokenKey) ?? identity.files.map(AppCredential.certificate)
    let driver = BenchDriver(
      plan: plan, credential: credential, trust: identity.trust, topic: provider.topic,
      simulatorExecutable: Self.executable)
    let report = try await run(driver, plan.sweep)
    let text = json ? BenchJSON.text(report) : BenchTable.text(report)
    if let problem = StandardStream.output.write(Array((text + "\n").utf8)) {
      throw CommandFailure.couldNotRun("the results cannot be written: \(problem)")
    }
    try page?.write(BenchPage.text(report, at: Date()))
    guard !report.isInterrupted, report.agrees else { throw ExitStatus.findings }
  }
}

extension BenchCommand {
  /// This program itself, which is the simulator too.
  private static var executable: String {
    URL(filePath: "/proc/self/exe").resolvingSymlinksInPath().path(percentEncoded: false)
  }

  /// Measures, and shows on standard error how far it is.
  private func run(_ driver: BenchDriver, _ sweep: BenchSweep) async throws -> BenchReport {
    let stream = StandardStream.error
    let progress = Mutex(BenchProgress(stream.isTerminal ? .terminal(columns: stream.columnCount) : .log, sweep: sweep))
    let show: @Sendable (String?) -> Void = { text in if let text { _ = stream.write(Array(text.utf8)) } }
    let watch = SignalWatch { count in
      if count == 1 {
        driver.stop()
        show(
          progress.withLock { $0.clear() }
            + "carillon: stopping: what is in flight is still measured; interrupt again to stop at once\n")
      } else {
        driver.endSimulators()
        Foundation.exit(ExitStatus.findings.rawValue)
      }
    }
    defer { watch.stop() }
    do { return try await driver.run { event in show(progress.withLock { $0.update(event) }) } } catch {
      show(progress.withLock { $0.clear() })
      throw error
    }
  }
}
