internal import ArgumentParser
internal import Carillon
internal import Foundation
internal import PushBench
internal import PushWire
internal import Synchronization

struct BenchCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "bench",
    abstract: "Measures the engine with a gateway: throughput, CPU time, latencies, memory.",
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

      The first value of each list is the base. Every other value is measured with all other variables at their \
      base: --apps 1,10 --payload 100,200 makes three points.

      With --rate max (a closed loop) the sender hands over as much as the engine accepts. This finds the \
      limit; its latencies are those of full queues. With --rate N (an open loop) the sender hands over at fixed \
      times. Latency counts from the time at which a notification was due, so a sender that falls behind shows \
      in the latencies.
      The latency to the socket ends when a batch is encrypted and handed over. The latency to the answer ends \
      when an answer settles the notification. HTTP/2 has an answer for each request. The binary protocol does \
      not answer accepted notifications, so most of them are settled by the answer to a probe.

      With --gateway it uses one transport, and a certificate or, over HTTP/2, a token key.

      Apple's hosts are refused: load tests against them are abuse.

      Exit status: 0 measured, 1 interrupted or the account differs from the simulator's, 2 wrong flags or files, \
      3 it could not run.
      """)

  @Option(
    help: .init("The gateway to load, one of your own (default: the built-in simulator).", valueName: "host:port"))
  var gateway: String?
  @OptionGroup var identity: IdentityOptions
  @Option(help: .init("Apps, 1 to 1000, each with its own connections.", valueName: "n,…")) var apps = "1"
  @Option(help: .init("Connections of each app, 1 to 1000.", valueName: "n,…")) var connections = "1"
  @Option(help: .init("The most bytes in one write; with 1, each frame is written alone.", valueName: "size,…"))
  var batch = "64KiB"
  @Option(help: .init("Payload sizes, in bytes.", valueName: "n,…")) var payload = "200"
  @Option(help: .init("Notifications per second over all apps; max is as fast as possible.", valueName: "n|max,…"))
  var rate = "max"
  @Option(
    help: .init(
      "The round-trip time to the built-in simulator, also during the TCP and TLS handshakes; see simulate --help "
        + "(default: 0ms).", valueName: "time,…")) var latency: String?
  @Option(
    help: .init(
      "Adds an app that sends this many notifications per second; its latency shows what the others leave for it "
        + "(default: none).", valueName: "n")) var trickle: String?
  @Option(help: .init("The transport: the binary protocol or the HTTP/2 provider API.", valueName: "binary|http2,…"))
  var transport = "binary"
  @Option(help: .init("HTTP/2: the most requests in flight on one connection (default: 1000).", valueName: "n,…"))
  var streams: String?
  @Option(
    help: .init(
      "With --gateway over HTTP/2: the app's bundle identifier (default: the certificate's; needed with --token-key).",
      valueName: "bundle")) var topic: String?
  @OptionGroup var key: TokenKeyOptions
  @Option(help: .init("The frame version of the binary protocol, 0, 1 or 2 (default: 2).", valueName: "n"))
  var command: Int?
  @Option(help: .init("How long each point is measured (default: 5s).", valueName: "time")) var duration: String?
  @Option(help: .init("How long each point runs before it is measured (default: 1s).", valueName: "time"))
  var warmUp: String?
  @Option(
    help: .init(
      "Measures this many notifications instead, from the first connection to the last outcome.", valueName: "n"))
  var count: Int?
  @Option(help: .init("How long a frame may wait until its batch is written.", valueName: "time")) var batchDelay =
    "5ms"
  @Option(help: .init("The most unsettled notifications on one binary connection (default: 262144).", valueName: "n"))
  var window: Int?
  @Option(
    help: .init(
      "How the last binary notifications are settled: by a probe or after a quiet period (default: probe).",
      valueName: "probe|quiet")) var confirm: LanePolicy.Confirm?
  @Option(help: .init("The quiet period after which notifications count as accepted (default: 5s).", valueName: "time"))
  var settleQuiet: String?
  @Option(help: .init("Threads of the sender (default: one per core).", valueName: "n")) var threads: Int?
  @Flag(help: "Prints the results as one JSON object on standard output.") var json = false
  @Option(help: .init("Writes one self-contained page with plots.", valueName: "file")) var html: String?

  func plan() throws -> BenchPlan {
    var plan = BenchPlan()
    try planTransports(&plan)
    if latency != nil, gateway != nil {
      throw ValidationError("--latency needs the built-in simulator: leave out --latency or --gateway.")
    }
    // Payloads and streams depend on the transports.
    let texts: [(BenchVariable, String?)] = [
      (.apps, apps), (.connections, connections), (.streams, streams), (.batch, batch), (.payload, payload),
      (.rate, rate), (.latency, latency),
    ]
    for (variable, text) in texts { if let text { try set(variable, to: text, in: &plan) } }
    plan.extent = try extent()
    if let trickle {
      guard count == nil else {
        throw ValidationError("--trickle and --count exclude each other: --trickle needs a --duration.")
      }
      try Options.value("--trickle") { () throws(ValueError) in try plan.setTrickle(trickle) }
    }
    plan.batchDelay = try Options.duration(batchDelay, flag: "--batch-delay", in: AppSetting.Bounds.batchDelay)
    plan.threads = threads ?? ProcessInfo.processInfo.activeProcessorCount
    try Options.check(plan.threads, flag: "--threads", in: BenchPlan.threadCounts)
    plan.target = try target(plan.sweep.transports)
    return plan
  }

  /// The flag of a variable has its name.
  private func set(_ variable: BenchVariable, to text: String, in plan: inout BenchPlan) throws {
    try Options.value("--\(variable.rawValue)") { () throws(ValueError) in try plan.set(variable, to: text) }
  }

  /// The transports, and the flags that belong to one of them.
  private func planTransports(_ plan: inout BenchPlan) throws {
    try set(.transport, to: transport, in: &plan)
    if !plan.sweep.transports.contains(.http2) {
      try Options.require("--transport http2", for: [("--streams", streams != nil)] + provider)
    }
    if !plan.sweep.transports.contains(.binary) {
      let flags = [
        ("--command", command != nil), ("--window", window != nil), ("--confirm", confirm != nil),
        ("--settle-quiet", settleQuiet != nil),
      ]
      try Options.require("--transport binary", for: flags, because: ": HTTP/2 has nothing like it")
    }
    if let command { plan.command = try Options.command(command) }
    try Options.check(window, flag: "--window", in: BenchPlan.windowCounts)
    if let window { plan.windowCount = window }
    plan.settling.usesProbes = (confirm ?? .probe) == .probe
    plan.settling.quiet = try Options.duration(settleQuiet ?? "5s", flag: "--settle-quiet", in: AppSetting.Bounds.quiet)
  }

  private var provider: [(String, Bool)] { [("--topic", topic != nil)] + key.given }

  private func extent() throws -> BenchPlan.Extent {
    guard let count else {
      return .duration(
        try Options.duration(duration ?? "5s", flag: "--duration", in: BenchPlan.durations),
        warmUp: try Options.duration(warmUp ?? "1s", flag: "--warm-up", in: BenchPlan.warmUps))
    }
    try Options.exclude(
      [("--duration", duration != nil), ("--warm-up", warmUp != nil)], "--count",
      because: "--count measures from the beginning to the end")
    try Options.check(count, flag: "--count", in: BenchPlan.counts)
    return .count(count)
  }

  private func target(_ transports: [AppConfiguration.Transport.Name]) throws -> BenchPlan.Target {
    try identity.check()
    guard let gateway else {
      try Options.require(
        "--gateway",
        for: [("--certificate", identity.certificate != nil), ("--trust", identity.trust != nil)] + provider,
        because: "; the built-in simulator makes its own certificates")
      return .simulator
    }
    let endpoint = try Options.endpoint(gateway, flag: "--gateway")
    if let refusal = AppleHosts.refusal(of: endpoint.host) { throw CommandFailure.usage("--gateway: \(refusal)") }
    guard transports.count == 1 else {
      throw ValidationError("--gateway needs one --transport: a gateway has one port for each, and only one is given.")
    }
    try key.check(hasCertificate: identity.certificate != nil, hasTopic: topic != nil)
    guard identity.certificate != nil || key.isGiven else {
      throw ValidationError(
        "A credential is missing: --certificate FILE\(transports == [.http2] ? " or --token-key FILE" : "").")
    }
    return .gateway(endpoint)
  }

  func run() async throws {
    let plan = try plan()
    // Opened before anything is measured, so that a wrong path is reported first.
    let page = try failing(flag: "--html") { try html.map(BenchPageFile.init) }
    let credential = key.file.map(AppCredential.tokenKey) ?? identity.files.map(AppCredential.certificate)
    let driver = BenchDriver(
      plan: plan, credential: credential, trust: identity.trust, topic: topic, simulatorExecutable: Self.executable)
    let report = try await run(driver, plan.sweep)
    let text = json ? BenchJSON.text(report) : BenchTable.text(report)
    if let problem = StandardStream.output.write(Array((text + "\n").utf8)) {
      throw CommandFailure.couldNotRun("The results cannot be written: \(problem)")
    }
    try page?.write(BenchPage.text(report, at: Date()))
    guard !report.isInterrupted, report.agrees else { throw ExitStatus.findings }
  }
}

extension BenchCommand {
  /// The path of this program, which is also the simulator.
  private static var executable: String {
    URL(filePath: "/proc/self/exe").resolvingSymlinksInPath().path(percentEncoded: false)
  }

  /// Measures, and shows progress on standard error.
  private func run(_ driver: BenchDriver, _ sweep: BenchSweep) async throws -> BenchReport {
    let stream = StandardStream.error
    let progress = Mutex(BenchProgress(stream.isTerminal ? .terminal(columns: stream.columnCount) : .log, sweep: sweep))
    let show: @Sendable (String?) -> Void = { text in if let text { _ = stream.write(Array(text.utf8)) } }
    let watch = SignalWatch { count in
      if count == 1 {
        driver.stop()
        show(
          progress.withLock { $0.clear() }
            + "carillon: stopping: notifications in flight are still measured; interrupt again to stop at once\n")
      } else {
        driver.endSimulators()
        ExitStatus.findings.end()
      }
    }
    defer { watch.stop() }
    do { return try await driver.run { event in show(progress.withLock { $0.update(event) }) } } catch {
      show(progress.withLock { $0.clear() })
      throw error
    }
  }
}
