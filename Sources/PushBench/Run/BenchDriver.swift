package import Carillon
internal import PushTransport
internal import Synchronization

/// Runs the points of a benchmark one after the other, each with its own apps, connections and
/// threads.
package final class BenchDriver: Sendable {
  private let plan: BenchPlan
  private let credential: AppCredential?
  private let trust: String?
  private let topic: String?
  private let simulatorExecutable: String
  private let isInterrupted = Atomic(false)
  private let simulators = Mutex<[BenchSimulator]>([])

  /// - Parameters:
  ///   - credential: For a gateway of the user's own. Nil with the simulator, which makes
  ///     certificates for each app.
  ///   - trust: A PEM file with that gateway's authorities; nil: the system's.
  ///   - topic: The topic over HTTP/2; nil: the certificate's.
  ///   - simulatorExecutable: The command `carillon`, which is started as the simulator.
  package init(
    plan: BenchPlan, credential: AppCredential?, trust: String?, topic: String?, simulatorExecutable: String
  ) {
    (self.plan, self.credential, self.trust) = (plan, credential, trust)
    (self.topic, self.simulatorExecutable) = (topic, simulatorExecutable)
  }

  /// Stops handing over notifications. Those in flight are still measured, and ``run(_:)`` returns
  /// a report with ``BenchReport/isInterrupted`` set.
  package func stop() { isInterrupted.store(true, ordering: .releasing) }

  /// Ends the simulators at once, before the process exits.
  package func endSimulators() { simulators.withLock { for simulator in $0 { simulator.stop() } } }

  /// Measures every point.
  ///
  /// - Parameter report: Called with each event, several times a second, on any thread.
  package func run(_ report: @escaping @Sendable (BenchEvent) -> Void) async throws(CarillonError) -> BenchReport {
    report(.preparing(preparation))
    defer { endSimulators() }
    let gateway = try connectable()
    var result = BenchReport(plan: plan, machine: .present, points: [])
    for (index, settings) in plan.sweep.points.enumerated() where !isInterrupted.load(ordering: .acquiring) {
      let started = ContinuousClock.now
      let run = BenchRun(
        plan: plan, settings: settings, gateway: gateway,
        isInterrupted: { self.isInterrupted.load(ordering: .acquiring) },
        progress: { report(.running(point: index, settings, $0, elapsed: ContinuousClock.now - started)) })
      do {
        let point = try await run.run()
        result.points.append(point)
        report(.measured(point: index, point))
      } catch { throw CarillonError(describing: error) }
    }
    result.isInterrupted = isInterrupted.load(ordering: .acquiring)
    result.simulatorAccepted = simulators.withLock { simulators -> Int? in
      let counts = simulators.map { $0.stop() }
      return counts.isEmpty || counts.contains(nil) ? nil : counts.compactMap { $0 }.reduce(0, +)
    }
    return result
  }

  private var preparation: String {
    switch plan.target {
    case .simulator where plan.sweep.latencies.count > 1:
      "Starting simulators, one for each latency, in processes of their own on this machine."
    case .simulator: "Starting the simulator, in a process of its own on this machine."
    case .gateway(let endpoint): "Connecting to \(endpoint)."
    }
  }

  /// Starts one simulator for each latency, if simulators are used, and reads the credentials of
  /// all apps.
  private func connectable() throws(CarillonError) -> BenchGateway {
    let appCount = (plan.sweep.points.map(\.apps).max() ?? 1) + (plan.trickle == nil ? 0 : 1)
    var gateway = BenchGateway(routes: [:])
    switch plan.target {
    case .gateway(let endpoint):
      guard let credential else { throw CarillonError(.configuration, "the gateway \(endpoint) needs a credential") }
      for transport in plan.sweep.transports {
        gateway.routes[BenchGateway.RouteKey(transport: transport, latency: .zero)] = try BenchGateway.route(
          transport, to: endpoint, as: Array(repeating: credential, count: appCount), trust: trust, topic: topic)
      }
    case .simulator:
      let topics = (0..<appCount).map { "com.example.bench-\($0)" }
      var certificates: CertificateMaker.Files?
      for latency in plan.sweep.latencies {
        let started = try BenchSimulator(
          executable: simulatorExecutable, topics: topics, servesHTTP2: plan.sweep.transports.contains(.http2),
          latency: latency, certificates: certificates)
        certificates = started.certificates
        simulators.withLock { $0.append(started) }
        let credentials = try topics.map { topic throws(CarillonError) in
          guard let files = started.certificates.apps[topic] else {
            throw CarillonError(.inconsistency, "there is no certificate for \(topic)")
          }
          return AppCredential.certificate(files)
        }
        for transport in plan.sweep.transports {
          let port = transport == .http2 ? started.http2Port ?? 0 : started.port
          let endpoint = Endpoint(host: "127.0.0.1", port: port)
          gateway.routes[BenchGateway.RouteKey(transport: transport, latency: latency)] = try BenchGateway.route(
            transport, to: endpoint, as: credentials, trust: started.certificates.authority)
        }
      }
    }
    return gateway
  }
}
