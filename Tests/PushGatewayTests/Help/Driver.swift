internal import PushGateway
internal import PushTransport
internal import PushWire

/// A connection to a gateway without sockets, and all its actions.
struct Driver: ~Copyable {
  let gateway: SimulatedGateway
  let memory: RecordedFrames
  private var connection: SimulatedConnection
  private(set) var now: Instant
  private(set) var actions: [GatewayAction] = []

  init(_ rules: FaultRules = FaultRules(), topic: String = "app", now: Instant = .start + .seconds(1)) {
    let memory = RecordedFrames()
    self.init(SimulatedGateway(rules: rules, memory: memory), memory, topic: topic, now: now)
  }

  /// The first connection of a gateway with these common faults.
  init(faults: Faults, settings: (inout FaultRules) -> Void = { _ in }) {
    var rules = FaultRules()
    rules.common = faults
    settings(&rules)
    self.init(rules)
  }

  init(
    _ gateway: SimulatedGateway, _ memory: RecordedFrames = RecordedFrames(), topic: String = "app",
    now: Instant = .start + .seconds(1)
  ) {
    self.gateway = gateway
    self.memory = memory
    self.now = now
    connection = gateway.connect(topic: topic)
    actions += connection.opened(now: now)
  }

  mutating func receive(_ bytes: [UInt8]) {
    actions += unsafe bytes.withUnsafeBytes { unsafe connection.received($0, now: now) }
  }

  mutating func pass(_ duration: Duration) {
    now = now + duration
    actions += connection.woken(now: now)
  }

  mutating func peerClosed() { actions += connection.peerClosed(now: now) }
  mutating func shutDown() { actions += connection.shutDown(now: now) }

  /// Ends the connection and returns the gateway's truth.
  mutating func ended() -> AppTruth {
    connection.ended()
    return gateway.truth().apps["app"] ?? AppTruth()
  }

  /// All actions except wake-ups.
  var visible: [GatewayAction] { actions.visible }
}

extension [GatewayAction] {
  var visible: [GatewayAction] {
    filter {
      if case .wake = $0 { false } else { true }
    }
  }
}

extension GatewayAction {
  static func answer(_ status: GatewayStatus, _ identifier: UInt32) -> GatewayAction {
    .send(ErrorResponse(status: status, identifier: identifier))
  }
}
