internal import Foundation
internal import PushServer
internal import PushTransport
internal import Synchronization

/// Runs a benchmark's points one after the other, each with apps, connections and threads of its own, and shows how far it is.
struct BenchDriver: Sendable {
  let plan: BenchPlan
  /// For a gateway of the user's own; nil with the simulator, which brings certificates for each app.
  let credential: AppCredential?
  let trust: String?
  /// Of HTTP/2; nil: what the certificate says.
  let topic: String?

  func run() async throws -> BenchReport {
    let stream = StandardStream.error
    let display = Mutex(BenchProgress(stream.isTerminal ? .terminal(columns: stream.columnCount) : .log, sweep: plan.sweep))
    let show: @Sendable (String?) -> Void = { text in if let text { _ = stream.write(Array(text.utf8)) } }
    let interruptions = Atomic(0)
    let simulator = Mutex<BenchSimulator?>(nil)
    let watch = SignalWatch { count in
      interruptions.store(count, ordering: .releasing)
      if count == 1 {
        show(display.withLock { $0.clear() } + "carillon: stopping: what is under way is still measured; interrupt again to stop at once\n")
      } else {
        simulator.withLock { _ = $0?.stop() }
        Foundation.exit(ExitStatus.findings.rawValue)
      }
    }
    defer { watch.stop() }

    show(display.withLock { $0.preparing(preparation) })
    let gateway = try connectable(simulator)
    defer { simulator.withLock { _ = $0?.stop() } }
    var report = BenchReport(plan: plan, machine: .present, points: [])
    for (index, settings) in plan.sweep.points.enumerated() where interruptions.load(ordering: .acquiring) == 0 {
      let started = ContinuousClock.now
      let run = BenchRun(
        plan: plan, settings: settings, gateway: gateway, isInterrupted: { interruptions.load(ordering: .acquiring) > 0 },
        progress: { stage in
          show(display.withLock { $0.update(point: index, settings: settings, stage: stage, elapsed: ContinuousClock.now - started) })
        })
      do {
        let point = try await run.run()
        report.points.append(point)
        show(display.withLock { $0.finished(point: index, point) })
      } catch {
        show(display.withLock { $0.clear() })
        throw CommandFailure.describing(error)
      }
    }
    report.isInterrupted = interruptions.load(ordering: .acquiring) > 0
    report.simulatorAccepted = simulator.withLock { $0?.stop() }
    return report
  }

  private var preparation: String {
    switch plan.target {
    case .simulator: "Starting the simulator, in a process of its own on this machine."
    case .gateway(let endpoint): "Connecting to \(endpoint)."
    }
  }

  /// Starts the simulator if there is to be one, and reads the credential of every app.
  private func connectable(_ simulator: borrowing Mutex<BenchSimulator?>) throws -> BenchGateway {
    let appCount = (plan.sweep.points.map(\.apps).max() ?? 1) + (plan.trickle == nil ? 0 : 1)
    switch plan.target {
    case .gateway(let endpoint):
      guard let credential else { throw CommandFailure.usage("--certificate FILE must say who sends") }
      return try gateway { transport in
        try BenchGateway.route(transport, to: endpoint, as: Array(repeating: credential, count: appCount), trust: trust, topic: topic)
      }
    case .simulator:
      let topics = (0..<appCount).map { "com.example.bench-\($0)" }
      let started = try BenchSimulator(topics: topics, servesHTTP2: plan.sweep.transports.contains(.http2))
      simulator.withLock { $0 = started }
      let credentials = try topics.map { topic in
        guard let files = started.certificates.apps[topic] else { throw CommandFailure.couldNotRun("there is no certificate for \(topic)") }
        return AppCredential.certificate(files)
      }
      return try gateway { transport in
        let endpoint = Endpoint(host: "127.0.0.1", port: transport == .http2 ? started.http2Port ?? 0 : started.port)
        return try BenchGateway.route(transport, to: endpoint, as: credentials, trust: started.certificates.authority)
      }
    }
  }

  private func gateway(_ route: (AppSettings.Transport) throws -> BenchGateway.Route) rethrows -> BenchGateway {
    BenchGateway(routes: try Dictionary(uniqueKeysWithValues: plan.sweep.transports.map { ($0, try route($0)) }))
  }
}
