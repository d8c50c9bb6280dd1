internal import Carillon
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
    let simulators = Mutex<[BenchSimulator]>([])
    let watch = SignalWatch { count in
      interruptions.store(count, ordering: .releasing)
      if count == 1 {
        show(display.withLock { $0.clear() } + "carillon: stopping: what is under way is still measured; interrupt again to stop at once\n")
      } else {
        simulators.withLock { for simulator in $0 { simulator.stop() } }
        Foundation.exit(ExitStatus.findings.rawValue)
      }
    }
    defer { watch.stop() }

    show(display.withLock { $0.preparing(preparation) })
    defer { simulators.withLock { for simulator in $0 { simulator.stop() } } }
    let gateway = try connectable(simulators)
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
    report.simulatorAccepted = simulators.withLock { simulators -> Int? in
      let counts = simulators.map { $0.stop() }
      return counts.isEmpty || counts.contains(nil) ? nil : counts.compactMap { $0 }.reduce(0, +)
    }
    return report
  }

  private var preparation: String {
    switch plan.target {
    case .simulator where plan.sweep.latencies.count > 1: "Starting simulators, one for each latency, in processes of their own on this machine."
    case .simulator: "Starting the simulator, in a process of its own on this machine."
    case .gateway(let endpoint): "Connecting to \(endpoint)."
    }
  }

  /// Starts the simulators if there are to be any, one for each distance, and reads the credential of every app.
  private func connectable(_ simulators: borrowing Mutex<[BenchSimulator]>) throws -> BenchGateway {
    let appCount = (plan.sweep.points.map(\.apps).max() ?? 1) + (plan.trickle == nil ? 0 : 1)
    var gateway = BenchGateway(routes: [:])
    switch plan.target {
    case .gateway(let endpoint):
      guard let credential else { throw CommandFailure.usage("--certificate FILE must say who sends") }
      for transport in plan.sweep.transports {
        gateway.routes[BenchGateway.Line(transport: transport, latency: .zero)] = try BenchGateway.route(
          transport, to: endpoint, as: Array(repeating: credential, count: appCount), trust: trust, topic: topic)
      }
    case .simulator:
      let topics = (0..<appCount).map { "com.example.bench-\($0)" }
      var certificates: CertificateMaker.Files?
      for latency in plan.sweep.latencies {
        let started = try BenchSimulator(
          topics: topics, servesHTTP2: plan.sweep.transports.contains(.http2), latency: latency, certificates: certificates)
        certificates = started.certificates
        simulators.withLock { $0.append(started) }
        let credentials = try topics.map { topic in
          guard let files = started.certificates.apps[topic] else { throw CommandFailure.couldNotRun("there is no certificate for \(topic)") }
          return AppCredential.certificate(files)
        }
        for transport in plan.sweep.transports {
          let endpoint = Endpoint(host: "127.0.0.1", port: transport == .http2 ? started.http2Port ?? 0 : started.port)
          gateway.routes[BenchGateway.Line(transport: transport, latency: latency)] = try BenchGateway.route(
            transport, to: endpoint, as: credentials, trust: started.certificates.authority)
        }
      }
    }
    return gateway
  }
}
