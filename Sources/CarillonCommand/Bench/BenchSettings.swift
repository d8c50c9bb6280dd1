internal import Carillon
internal import PushServer
internal import PushWire

/// What one point of a benchmark is run with.
struct BenchSettings: Hashable, Sendable {
  var transport = AppSettings.Transport.binary
  var apps = 1
  /// For each app.
  var connections = 1
  /// Over HTTP/2: requests in flight on one connection, at most; the gateway's limit counts too.
  var streams = 1000
  /// The bound of one write, in bytes.
  var batchByteCount = 65_536
  var payloadByteCount = 200
  /// Notifications per second over all apps, sent by the clock; nil: as fast as the engine takes them.
  var rate: Double?
  /// The round trip to the simulator; zero: none is added.
  var latency = Duration.zero
}

/// What a benchmark can vary.
enum BenchVariable: String, CaseIterable, Sendable {
  case transport, apps, connections, streams, batch, payload, rate, latency

  /// As the axis of a plot says it.
  var title: String {
    switch self {
    case .transport: "transport"
    case .apps: "apps"
    case .connections: "connections per app"
    case .streams: "streams per connection"
    case .batch: "batch size bound"
    case .payload: "payload size, bytes"
    case .rate: "notifications per second asked for"
    case .latency: "round trip to the gateway"
    }
  }

  /// For sorting; `max` comes last.
  func number(_ settings: BenchSettings) -> Double {
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

  /// The setting's value as people write it on the command line.
  func text(_ settings: BenchSettings) -> String {
    switch self {
    case .transport: settings.transport.rawValue
    case .apps: "\(settings.apps)"
    case .connections: "\(settings.connections)"
    case .streams: settings.transport == .http2 ? "\(settings.streams)" : "-"
    case .batch: Quantity.describe(byteCount: settings.batchByteCount)
    case .payload: "\(settings.payloadByteCount)"
    case .rate: settings.rate.map { AccountTable.grouped(Int($0.rounded())) } ?? "max"
    case .latency: settings.latency == .zero ? "0ms" : Quantity.describe(settings.latency)
    }
  }
}

/// The values of each variable, and the points that come of them.
struct BenchSweep: Hashable, Sendable {
  var transports = [AppSettings.Transport.binary]
  var apps = [1]
  var connections = [1]
  var streams = [1000]
  var batchByteCounts = [65_536]
  var payloadByteCounts = [200]
  /// Nil: as fast as possible.
  var rates: [Double?] = [nil]
  var latencies = [Duration.zero]

  /// Every variable at its first value.
  var base: BenchSettings {
    BenchSettings(
      transport: transports.first ?? .binary, apps: apps.first ?? 1, connections: connections.first ?? 1, streams: streams.first ?? 1000,
      batchByteCount: batchByteCounts.first ?? 65_536, payloadByteCount: payloadByteCounts.first ?? 200, rate: rates.first ?? nil,
      latency: latencies.first ?? .zero)
  }

  /// The base first, then each variable's further values with all others at the base: so many points as there are values, not as many as their product.
  var points: [BenchSettings] {
    var points = [base]
    for variable in BenchVariable.allCases { points += series(variable).dropFirst() }
    return points
  }

  /// The variables with more than one value.
  var swept: [BenchVariable] { BenchVariable.allCases.filter { series($0).count > 1 } }

  /// Those that mean something: only HTTP/2 has streams, where nothing but the binary protocol is spoken nobody asks which transport it was, and distance is
  /// not mentioned where there is none.
  var variables: [BenchVariable] {
    BenchVariable.allCases.filter { variable in
      switch variable {
      case .transport, .streams: transports.contains(.http2)
      case .latency: latencies != [.zero]
      default: true
      }
    }
  }

  /// The base with one variable at each of its values, in the order given.
  func series(_ variable: BenchVariable) -> [BenchSettings] {
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

/// All that is the same for every point.
struct BenchPlan: Sendable {
  enum Target: Hashable, Sendable {
    /// `carillon simulate`, in a process of its own.
    case simulator
    case gateway(Endpoint)
  }

  /// How long a point is measured.
  enum Extent: Hashable, Sendable {
    /// So long, after `warmUp` in which all is running and nothing counts.
    case duration(Duration, warmUp: Duration)
    /// From the first connection to the last outcome of so many notifications.
    case count(Int)
  }

  var target = Target.simulator
  var sweep = BenchSweep()
  var extent = Extent.duration(.seconds(5), warmUp: .seconds(1))
  /// The frame layout of the binary protocol.
  var command = Command.framed
  var batchDelay = Duration.milliseconds(5)
  /// With the binary protocol: the most unsettled notifications on one connection.
  var windowCount = 262_144
  var settle = AppSettings.Settle()
  var threads = 2
  /// Notifications per second of one more app beside the others, whose latency shows what they leave it; nil: there is none.
  var trickle: Double?
}
