package import Carillon
package import PushWire

/// The settings of one point of a benchmark.
package struct BenchSettings: Hashable, Sendable {
  package var transport = AppConfiguration.Transport.Name.binary
  package var apps = 1
  /// For each app.
  package var connections = 1
  /// HTTP/2: the most requests in flight on one connection. The gateway's limit applies too.
  package var streams = 1000
  /// The size limit of one write, in bytes.
  package var batchByteCount = 65_536
  package var payloadByteCount = 200
  /// Notifications per second over all apps, at fixed times; nil: as fast as the engine accepts
  /// them.
  package var rate: Double?
  /// The round-trip time to the simulator; zero: no added latency.
  package var latency = Duration.zero
}

/// What a benchmark can vary.
package enum BenchVariable: String, CaseIterable, Sendable {
  case transport, apps, connections, streams, batch, payload, rate, latency

  /// The title of a plot's axis.
  package var title: String {
    switch self {
    case .transport: "transport"
    case .apps: "apps"
    case .connections: "connections per app"
    case .streams: "streams per connection"
    case .batch: "batch size limit"
    case .payload: "payload size, bytes"
    case .rate: "requested notifications per second"
    case .latency: "round trip to the gateway"
    }
  }

  /// The value for sorting; `max` comes last.
  package func number(_ settings: BenchSettings) -> Double {
    switch self {
    case .transport: settings.transport == .binary ? 0 : 1
    case .apps: Double(settings.apps)
    case .connections: Double(settings.connections)
    case .streams: Double(settings.streams)
    case .batch: Double(settings.batchByteCount)
    case .payload: Double(settings.payloadByteCount)
    case .rate: settings.rate ?? .infinity
    case .latency: settings.latency.inSeconds
    }
  }

  /// The value as the command line writes it.
  package func text(_ settings: BenchSettings) -> String {
    switch self {
    case .transport: settings.transport.rawValue
    case .apps: "\(settings.apps)"
    case .connections: "\(settings.connections)"
    case .streams: settings.transport == .http2 ? "\(settings.streams)" : "-"
    case .batch: Quantity.describe(byteCount: settings.batchByteCount)
    case .payload: "\(settings.payloadByteCount)"
    case .rate: settings.rate.map { NumberText.grouped(Int($0.rounded())) } ?? "max"
    case .latency: Quantity.describe(settings.latency)
    }
  }
}

/// The values of each variable, and the points that follow from them.
package struct BenchSweep: Hashable, Sendable {
  package var transports = [AppConfiguration.Transport.Name.binary]
  package var apps = [1]
  package var connections = [1]
  package var streams = [1000]
  package var batchByteCounts = [65_536]
  package var payloadByteCounts = [200]
  /// Nil: as fast as possible.
  package var rates: [Double?] = [nil]
  package var latencies = [Duration.zero]

  package init(transports: [AppConfiguration.Transport.Name] = [.binary], latencies: [Duration] = [.zero]) {
    (self.transports, self.latencies) = (transports, latencies)
  }

  /// Every variable at its first value.
  package var base: BenchSettings {
    BenchSettings(
      transport: transports.first ?? .binary, apps: apps.first ?? 1, connections: connections.first ?? 1,
      streams: streams.first ?? 1000, batchByteCount: batchByteCounts.first ?? 65_536,
      payloadByteCount: payloadByteCounts.first ?? 200, rate: rates.first ?? nil, latency: latencies.first ?? .zero)
  }

  /// The base first, then each variable's further values with all others at the base. The number of
  /// points is the sum of the values, not their product.
  package var points: [BenchSettings] {
    var points = [base]
    for variable in BenchVariable.allCases { points += series(variable).dropFirst() }
    return points
  }

  /// The variables with more than one value.
  package var swept: [BenchVariable] { BenchVariable.allCases.filter { series($0).count > 1 } }

  /// The variables worth reporting. Transport and streams are left out without HTTP/2, latency
  /// where none is added.
  package var variables: [BenchVariable] {
    BenchVariable.allCases.filter { variable in
      switch variable {
      case .transport, .streams: transports.contains(.http2)
      case .latency: latencies != [.zero]
      default: true
      }
    }
  }

  /// The base with one variable at each of its values, in the order given.
  package func series(_ variable: BenchVariable) -> [BenchSettings] {
    func with<Value>(_ values: [Value], _ path: WritableKeyPath<BenchSettings, Value>) -> [BenchSettings] {
      values.map { value in
        var settings = base
        settings[keyPath: path] = value
        return settings
      }
    }
    return switch variable {
    case .transport: with(transports, \.transport)
    case .apps: with(apps, \.apps)
    case .connections: with(connections, \.connections)
    case .streams: with(streams, \.streams)
    case .batch: with(batchByteCounts, \.batchByteCount)
    case .payload: with(payloadByteCounts, \.payloadByteCount)
    case .rate: with(rates, \.rate)
    case .latency: with(latencies, \.latency)
    }
  }
}

/// The settings that are the same for every point.
package struct BenchPlan: Sendable {
  package enum Target: Hashable, Sendable {
    /// `carillon simulate` in a process of its own.
    case simulator
    case gateway(Endpoint)
  }

  /// How long a point is measured.
  package enum Extent: Hashable, Sendable {
    /// This long, after a warm-up that is not counted.
    case duration(Duration, warmUp: Duration)
    /// From the first connection until this many notifications have an outcome.
    case count(Int)
  }

  package var target = Target.simulator
  package var sweep = BenchSweep()
  package var extent = Extent.duration(.seconds(5), warmUp: .seconds(1))
  /// The frame version of the binary protocol.
  package var command = FrameVersion.framed
  package var batchDelay = Duration.milliseconds(5)
  /// Binary protocol: the most unsettled notifications on one connection.
  package var windowCount = 262_144
  package var settling = AppConfiguration.Settling()
  package var threads = 2
  /// Notifications per second of one additional app, whose latency shows how fairly the others
  /// leave room; nil: no such app.
  package var trickle: Double?

  package init() {}
}
