internal import ArgumentParser
internal import Foundation
internal import PushServer
internal import PushWire

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
        carillon bench --gateway gateway.example.com:2195 --trust ca.pem \\
          --certificate news.pem --key news.key --connections 4

      The first value of each list is the base; every other value is measured with the rest at the base, so --apps 1,10 --payload 100,200 makes three points.

      A closed loop (--rate max) hands over as much as the engine takes: it finds the limit, and its latencies are those of full queues. An open loop (--rate N) hands \
      over by the clock: latency counts from the moment a notification was due, so that a sender that falls behind cannot hide it. The way to the socket ends when a \
      batch is encrypted and handed over; the way to the answer when an answer (of a probe, mostly: the protocol is silent on success) tells the notification's fate.

      Apple's hosts are refused: load tests against them are abuse.

      Exit status: 0 measured, 1 interrupted or the account differs from the simulator's, 2 wrong flags or files, 3 it could not run.
      """)

  @Option(help: ArgumentHelp("A gateway of your own to load (default: the built-in simulator).", valueName: "host:port")) var gateway: String?
  @OptionGroup var identity: IdentityOptions
  @Option(help: ArgumentHelp("Apps, 1 to 1000, each with its own connections.", valueName: "n,…")) var apps = "1"
  @Option(help: ArgumentHelp("Connections of each app, 1 to 1000.", valueName: "n,…")) var connections = "1"
  @Option(help: ArgumentHelp("The most bytes in one write; 1 writes each frame alone.", valueName: "size,…")) var batch = "64KiB"
  @Option(help: ArgumentHelp("Payload sizes, in bytes.", valueName: "n,…")) var payload = "200"
  @Option(help: ArgumentHelp("Notifications per second over all apps; max is as fast as possible.", valueName: "n|max,…")) var rate = "max"
  @Option(
    help: ArgumentHelp("One more app, which sends so many per second meanwhile: its latency shows what the others leave it (default: none).", valueName: "n"))
  var trickle: String?
  @Option(help: ArgumentHelp("How the gateway is spoken to. Only the binary protocol for now.", valueName: "binary")) var transport = "binary"
  @Option(help: ArgumentHelp("The frame layout, 0, 1 or 2.", valueName: "n")) var command = 2
  @Option(help: ArgumentHelp("How long each point is measured (default: 5s).", valueName: "time")) var duration: String?
  @Option(help: ArgumentHelp("How long each point runs before it is measured (default: 1s).", valueName: "time")) var warmUp: String?
  @Option(help: ArgumentHelp("Measure so many notifications instead, from the first connection to the last outcome.", valueName: "n")) var count: Int?
  @Option(help: ArgumentHelp("How long a frame may wait for company.", valueName: "time")) var batchDelay = "5ms"
  @Option(help: ArgumentHelp("The most unsettled notifications on one connection.", valueName: "n")) var window = 262_144
  @Option(help: ArgumentHelp("How the last notifications are settled: by a probe or by silence.", valueName: "probe|quiet")) var confirm: AppSettings.Confirm =
    .probe
  @Option(help: ArgumentHelp("How long silence must last to mean acceptance.", valueName: "time")) var settleQuiet = "5s"
  @Option(help: ArgumentHelp("Threads of the sender (default: one per core).", valueName: "n")) var threads: Int?
  @Flag(help: "The results as one JSON object on standard output.") var json = false
  @Option(help: ArgumentHelp("Writes one self-contained page with plots.", valueName: "file")) var html: String?

  /// What the flags say.
  func plan() throws -> BenchPlan {
    var plan = BenchPlan()
    plan.sweep.apps = try BenchFlags.counts(apps, flag: "--apps", in: 1...1000)
    plan.sweep.connections = try BenchFlags.counts(connections, flag: "--connections", in: 1...1000)
    plan.sweep.batchByteCounts = try BenchFlags.batches(batch)
    plan.sweep.rates = try BenchFlags.rates(rate, flag: "--rate", example: "100,10000,max")
    plan.command = try Options.command(command)
    plan.sweep.payloadByteCounts = try BenchFlags.counts(payload, flag: "--payload", in: BenchPayload.leastByteCount...plan.command.payloadLimitDefault)
    guard transport == "binary" else {
      let sentence = transport == "http2" ? "--transport http2 is not there yet; leave it out." : "--transport must be binary, not \"\(transport)\"."
      throw ValidationError(sentence)
    }
    plan.extent = try extent()
    if let trickle {
      guard count == nil else { throw ValidationError("--trickle and --count exclude each other: a trickle has a time, not a number.") }
      guard let rate = try BenchFlags.rates(trickle, flag: "--trickle", example: "100").first ?? nil else {
        throw ValidationError("--trickle must be a number per second, not \"\(trickle)\".")
      }
      plan.trickle = rate
    }
    plan.batchDelay = try BenchFlags.duration(batchDelay, flag: "--batch-delay", in: .zero ... .seconds(10))
    guard (1...262_144).contains(window) else { throw ValidationError("--window must be from 1 to 262144, not \(window).") }
    plan.windowCount = window
    plan.settle.confirm = confirm
    plan.settle.quiet = try BenchFlags.duration(settleQuiet, flag: "--settle-quiet", in: .milliseconds(10) ... .seconds(3600))
    plan.threads = threads ?? ProcessInfo.processInfo.activeProcessorCount
    guard (1...256).contains(plan.threads) else { throw ValidationError("--threads must be from 1 to 256, not \(plan.threads).") }
    plan.target = try target()
    return plan
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
    guard (1...1_000_000_000).contains(count) else { throw ValidationError("--count must be from 1 to 1000000000, not \(count).") }
    return .count(count)
  }

  private func target() throws -> BenchPlan.Target {
    try identity.check()
    guard let gateway else {
      for (flag, value) in [("--certificate", identity.certificate), ("--trust", identity.trust)] where value != nil {
        throw ValidationError("\(flag) needs --gateway; the built-in simulator brings its own certificates.")
      }
      return .simulator
    }
    let endpoint = try Options.endpoint(gateway, flag: "--gateway")
    if let refusal = AppleHosts.refusal(of: endpoint.host) { throw CommandFailure.usage("--gateway: \(refusal)") }
    guard identity.certificate != nil else { throw ValidationError("--certificate FILE must say who sends.") }
    return .gateway(endpoint)
  }

  func run() async throws {
    let plan = try plan()
    // Found out before the measuring, not after it.
    let page = try html.map(BenchPageFile.init)
    let report = try await BenchDriver(plan: plan, credential: identity.files, trust: identity.trust).run()
    let text = json ? BenchJSON.text(report) : BenchTable.text(report)
    if let problem = StandardStream.output.write(Array((text + "\n").utf8)) { throw CommandFailure.couldNotRun("the results cannot be written: \(problem)") }
    try page?.write(BenchPage.text(report, at: Date()))
    guard !report.isInterrupted, report.agrees else { throw ExitStatus.findings }
  }
}

/// Where the page goes: opened at once, so that a path that cannot be written is known before anything is measured.
struct BenchPageFile {
  private let path: String
  private let file: FileHandle

  init(path: String) throws {
    self.path = path
    guard FileManager.default.createFile(atPath: path, contents: nil), let file = FileHandle(forWritingAtPath: path) else {
      throw CommandFailure.usage("--html: \(path) cannot be written")
    }
    self.file = file
  }

  func write(_ text: String) throws {
    do {
      try file.write(contentsOf: Data(text.utf8))
      try file.close()
    } catch {
      throw CommandFailure.couldNotRun("\(path) cannot be written: \(error.localizedDescription)")
    }
  }
}
