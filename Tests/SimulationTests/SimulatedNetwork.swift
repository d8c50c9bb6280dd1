internal import PushGateway
internal import PushTransport
internal import PushWire
internal import Support

/// What the network does to connections, beside the gateway's fault rules. All times are simulated.
struct NetworkFaults {
  /// One way, in microseconds. Drawn for each delivery; the order is kept.
  var latency: ClosedRange<Int> = 50...500  // microseconds
  /// Of 1000 dials, the number that reach no listener.
  var unreachablePerMille = 0
  /// Of 1000 deliveries to the gateway, the number that find the connection reset. Bytes in flight
  /// are lost in both directions.
  var resetPerMille = 0
  /// Of 1000 connections that open, the number that end later with an alert about the certificate.
  var lateAlertPerMille = 0
  /// When that happens, in milliseconds after opening.
  var lateAlertDelay = 1_000...9_000
  /// How many bytes may wait for the socket before the link is not writable.
  var highWater = 1 << 20
  /// The bandwidth, in bytes per millisecond.
  var bytesPerMillisecond = 1_000_000
  /// How long a connection takes to open, beside its latency: the handshakes.
  var dialing = Duration.zero
  var outage: Outage?
  /// Of so many machines behind the address, what one sends gets lost once the connection is open,
  /// or one reads nothing. They take turns.
  var muteOf: Int?
  var unreadOf: Int?

  /// For some time the gateway accepts no connection and loses the open ones.
  struct Outage {
    enum Kind: CaseIterable {
      /// There is no listener.
      case unreachable
      /// Every connection is closed as soon as it is open.
      case closes
      /// Every connection is closed after the first bytes, which may have been accepted.
      case closesBehindData
    }

    var kind: Kind
    /// Counted from the start of the process.
    var after: Duration
    var duration: Duration
  }
}

/// The destination of a dialer.
protocol SimulatedEndpoint: AnyObject, Sendable {
  /// Whether the certificate is refused after the handshake.
  func refusesCertificate() -> Bool
  func connect() -> any SimulatedPeer
}

/// The gateway's end of one connection.
protocol SimulatedPeer: AnyObject {
  func opened(now: Instant) -> [PeerAction]
  func received(_ bytes: UnsafeRawBufferPointer, now: Instant) -> [PeerAction]
  func woken(now: Instant) -> [PeerAction]
  func peerClosed(now: Instant) -> [PeerAction]
  /// The connection is gone.
  func ended()
}

enum PeerAction {
  case send([UInt8])
  case halfClose
  case close
  case reset
  case stopReading(until: Instant)
  case wake(at: Instant)
}

/// Dials a simulated gateway over a simulated network.
final class SimulatedDialer: Dialer, @unchecked Sendable {
  // Sync: used on the simulated loop only.
  private let loop: SimulatedLoop
  private let service: any SimulatedEndpoint
  private var random: SeededGenerator
  var faults: NetworkFaults
  private(set) var dials = 0
  private var isDead = false
  private var links: [SimulatedLink] = []
  private let outage: Range<Instant>?
  /// Which machine behind the address answers the first dial.
  private let firstMachine: Int

  init(loop: SimulatedLoop, service: any SimulatedEndpoint, faults: NetworkFaults, seed: UInt64) {
    self.loop = loop
    self.service = service
    self.faults = faults
    random = SeededGenerator(seed: seed)
    firstMachine = Int(truncatingIfNeeded: seed & 0xFF)
    outage = faults.outage.map { (loop.now + $0.after)..<(loop.now + $0.after + $0.duration) }
    if let outage { _ = loop.schedule(at: outage.lowerBound) { [weak self] in self?.outageBegins() } }
  }

  convenience init(loop: SimulatedLoop, gateway: SimulatedGateway, topic: String, faults: NetworkFaults, seed: UInt64) {
    self.init(loop: loop, service: BinaryService(gateway: gateway, topic: topic), faults: faults, seed: seed)
  }

  func dial(on loop: any Loop, delegate: any LinkDelegate) -> any Link {
    dials += 1
    links.removeAll(where: \.isOver)
    // The dials of a dead process reach nothing.
    let refused = !isDead && service.refusesCertificate()
    let link = SimulatedLink(
      loop: self.loop, service: service, delegate: delegate, faults: faults, outage: outage,
      seed: isDead ? 0 : random.next())
    links.append(link)
    link.isMute = meets(faults.muteOf)
    link.isUnread = meets(faults.unreadOf)
    if isDead { return link }
    let outageKind = outage?.contains(self.loop.now) == true ? faults.outage?.kind : nil
    if Int.random(in: 0..<1000, using: &random) < faults.unreachablePerMille || outageKind == .unreachable {
      link.fail(.unreachable("the simulated gateway does not listen"))
    } else if refused {
      link.openThenRefuse()
    } else if outageKind == .closes {
      link.openThenClose()
    } else {
      link.open()
    }
    return link
  }

  private func meets(_ machineCount: Int?) -> Bool {
    machineCount.map { (firstMachine + dials) % $0 == 0 } ?? false
  }

  private func outageBegins() {
    for link in links { link.lose() }
  }

  /// The process ends. The system closes its connections after the bytes that were handed over, and
  /// the process receives no more events.
  func die() {
    isDead = true
    for link in links { link.orphan() }
  }

  /// Reports to the dead process that its connections are gone, so that everything in it ends and
  /// its memory is released.
  func bury() {
    for link in links { link.bury() }
    links = []
  }
}

/// One connection of the simulated network, with both ends.
final class SimulatedLink: Link, @unchecked Sendable {
  // Sync: used on the simulated loop only.
  private let loop: SimulatedLoop
  private let faults: NetworkFaults
  private var random: SeededGenerator
  private var delegate: (any LinkDelegate)?
  /// The delegate in a dead process.
  private var deadDelegate: (any LinkDelegate)?
  private let outage: Range<Instant>?
  private var connection: (any SimulatedPeer)?
  private var isOpen = false
  private var isCut = false
  private var inFlight = 0
  private(set) var isWritable = true
  /// Deliveries keep their order in each direction.
  private var upstreamAt = Instant.start
  private var downstreamAt = Instant.start
  private var gatewayReadsAt = Instant.start
  /// Bytes that have arrived and were not read.
  private var arrivals: [Arrival] = []
  private var isReadingPlanned = false
  var isMute = false
  var isUnread = false

  private enum Arrival {
    case bytes([UInt8])
    case end
  }

  init(
    loop: SimulatedLoop, service: any SimulatedEndpoint, delegate: any LinkDelegate, faults: NetworkFaults,
    outage: Range<Instant>?,
    seed: UInt64
  ) {
    self.loop = loop
    self.faults = faults
    self.outage = outage
    self.delegate = delegate
    random = SeededGenerator(seed: seed)
    connection = service.connect()
  }

  var isIdle: Bool { inFlight == 0 }
  /// No delegate receives events any more.
  var isOver: Bool { delegate == nil && deadDelegate == nil }
  private(set) var handedOverByteCount: UInt64 = 0
  var unacknowledgedByteCount: Int { inFlight }

  // MARK: Beginnings

  func open() {
    takeTimeToDial()
    downstream { link in
      link.isOpen = true
      link.perform(link.connection?.opened(now: link.loop.now) ?? [])
      link.planLateAlert()
      link.delegate?.linkOpened(link)
    }
  }

  private func takeTimeToDial() {
    if faults.dialing > .zero { downstreamAt = loop.now + faults.dialing }
  }

  func fail(_ reason: LinkClosure) {
    connection = nil
    downstream { $0.closed(reason) }
  }

  /// TLS 1.3: the handshake looks complete, then the alert arrives. The gateway has read nothing.
  func openThenRefuse() {
    connection = nil
    downstream { link in
      link.isOpen = true
      link.delegate?.linkOpened(link)
      link.downstream { $0.closed(.credentialRefused("simulated")) }
    }
  }

  /// The gateway accepts the connection and closes it at once, having read nothing.
  func openThenClose() {
    connection = nil
    takeTimeToDial()
    downstream { link in
      link.isOpen = true
      link.delegate?.linkOpened(link)
      link.downstream { $0.closed(.byPeer) }
    }
  }

  /// The outage begins.
  func lose() {
    guard !isCut, connection != nil else { return }
    cut(faults.outage?.kind == .unreachable ? .reset : .byPeer)
  }

  /// An alert later than a refusal of the certificate can be. The gateway may have read something
  /// by then.
  private func planLateAlert() {
    guard faults.lateAlertPerMille > 0, Int.random(in: 0..<1000, using: &random) < faults.lateAlertPerMille else {
      return
    }
    _ = loop.schedule(at: loop.now + .milliseconds(Int.random(in: faults.lateAlertDelay, using: &random))) {
      guard !self.isCut, self.connection != nil else { return }
      self.cut(.credentialRefused("simulated, late"))
    }
  }

  // MARK: Link

  func send(_ bytes: UnsafeRawBufferPointer) {
    guard isOpen, !isCut else { return }
    let copy = unsafe Array(bytes)
    inFlight += copy.count
    handedOverByteCount += UInt64(copy.count)
    updateWritability()
    // Cut into up to three pieces, so that frames arrive in parts.
    var rest = copy[...]
    while !rest.isEmpty {
      let count = Bool.random(using: &random) ? rest.count : Int.random(in: 1...rest.count, using: &random)
      upstream(Array(rest.prefix(count)))
      rest = rest.dropFirst(count)
    }
  }

  func close() {
    guard delegate != nil else { return }
    let wasOpen = isOpen
    isOpen = false
    // The gateway sees the close after the bytes that were sent before.
    if wasOpen { upstreamEnd() }
    loop.execute { self.closed(.byUs) }
  }

  func orphan() {
    guard delegate != nil else { return }
    if isOpen { upstreamEnd() }
    isOpen = false
    deadDelegate = delegate
    delegate = nil
  }

  func bury() {
    let delegate = deadDelegate ?? delegate
    deadDelegate = nil
    self.delegate = nil
    isOpen = false
    if let delegate { loop.execute { delegate.linkClosed(self, reason: .reset) } }
  }

  // MARK: Towards the gateway

  private func upstream(_ bytes: [UInt8]) {
    let arrival = nextUpstream(byteCount: bytes.count)
    _ = loop.schedule(at: arrival) { self.arrive(.bytes(bytes)) }
  }

  private func upstreamEnd() {
    let arrival = nextUpstream(byteCount: 0)
    _ = loop.schedule(at: arrival) { self.arrive(.end) }
  }

  /// Queues bytes while the gateway does not read, which keeps their order. Two timers with the
  /// same time would not.
  private func arrive(_ arrival: Arrival) {
    arrivals.append(arrival)
    if !isReadingPlanned { read() }
  }

  private func read() {
    while !isCut, !isUnread, !arrivals.isEmpty {
      guard loop.now >= gatewayReadsAt else {
        isReadingPlanned = true
        _ = loop.schedule(at: gatewayReadsAt) {
          self.isReadingPlanned = false
          self.read()
        }
        return
      }
      switch arrivals.removeFirst() {
      case .bytes(let bytes): take(bytes)
      case .end:
        perform(connection?.peerClosed(now: loop.now) ?? [])
        isCut = true
        end()
      }
    }
  }

  private func take(_ bytes: [UInt8]) {
    inFlight -= bytes.count
    updateWritability()
    if Int.random(in: 0..<1000, using: &random) < faults.resetPerMille { return cut(.reset) }
    let actions = unsafe bytes.withUnsafeBytes { unsafe connection?.received($0, now: loop.now) ?? [] }
    if faults.outage?.kind == .closesBehindData, outage?.contains(loop.now) == true { return cut(.byPeer) }
    perform(actions)
  }

  private func nextUpstream(byteCount: Int) -> Instant {
    let travel = Duration.microseconds(
      Int.random(in: faults.latency, using: &random) + byteCount * 1000 / faults.bytesPerMillisecond)
    upstreamAt = max(upstreamAt + .nanoseconds(1), loop.now + travel)
    return upstreamAt
  }

  private func updateWritability() {
    let writable = inFlight <= (isWritable ? faults.highWater : faults.highWater / 4)
    guard writable != isWritable else { return }
    isWritable = writable
    loop.execute { if self.isOpen { self.delegate?.link(self, isWritable: writable) } }
  }

  // MARK: From the gateway

  private func perform(_ actions: [PeerAction]) {
    for action in actions {
      switch action {
      case .send(let bytes):
        // The client may read the bytes in two halves.
        let cut = Int.random(in: 1...bytes.count, using: &random)
        deliver(Array(bytes[..<cut]))
        if cut < bytes.count { deliver(Array(bytes[cut...])) }
      case .halfClose: deliverEnd()
      case .close:
        end()
        deliverEnd()
      case .reset: cut(.reset)
      case .stopReading(let until): gatewayReadsAt = until
      case .wake(let at): _ = loop.schedule(at: at) { self.wake() }
      }
    }
  }

  private func wake() {
    perform(connection?.woken(now: loop.now) ?? [])
  }

  private func deliverEnd() {
    guard !isMute else { return }
    downstream { $0.closed(.byPeer) }
  }

  private func deliver(_ bytes: [UInt8]) {
    guard !isMute else { return }
    downstream { link in
      // As with a socket, bytes that arrive between this side's close and the end are still
      // delivered.
      guard link.delegate != nil else { return }
      unsafe bytes.withUnsafeBytes { unsafe link.delegate?.link(link, received: $0) }
    }
  }

  /// The connection dies in both directions. Bytes in flight are lost.
  private func cut(_ reason: LinkClosure) {
    isCut = true
    end()
    downstream { $0.closed(reason) }
  }

  private func end() {
    connection?.ended()
    connection = nil
  }

  private func downstream(_ event: @escaping @Sendable (SimulatedLink) -> Void) {
    downstreamAt = max(
      downstreamAt + .nanoseconds(1), loop.now + .microseconds(Int.random(in: faults.latency, using: &random)))
    _ = loop.schedule(at: downstreamAt) { event(self) }
  }

  private func closed(_ reason: LinkClosure) {
    guard let delegate else { return }
    isOpen = false
    self.delegate = nil
    delegate.linkClosed(self, reason: reason)
  }
}

/// The binary gateway as an endpoint.
final class BinaryService: SimulatedEndpoint {
  private let gateway: SimulatedGateway
  private let topic: String

  init(gateway: SimulatedGateway, topic: String) {
    self.gateway = gateway
    self.topic = topic
  }

  func refusesCertificate() -> Bool { gateway.refusesCertificate(topic: topic) }
  func connect() -> any SimulatedPeer { BinaryPeer(gateway.connect(topic: topic)) }
}

private final class BinaryPeer: SimulatedPeer {
  private var connection: SimulatedConnection

  init(_ connection: consuming SimulatedConnection) {
    self.connection = connection
  }

  func opened(now: Instant) -> [PeerAction] { connection.opened(now: now).map(PeerAction.init) }
  func received(_ bytes: UnsafeRawBufferPointer, now: Instant) -> [PeerAction] {
    unsafe connection.received(bytes, now: now).map(PeerAction.init)
  }
  func woken(now: Instant) -> [PeerAction] { connection.woken(now: now).map(PeerAction.init) }
  func peerClosed(now: Instant) -> [PeerAction] { connection.peerClosed(now: now).map(PeerAction.init) }
  func ended() { connection.ended() }
}

extension PeerAction {
  fileprivate init(_ action: GatewayAction) {
    switch action {
    case .send(let response): self = .send(response.bytes)
    case .halfClose: self = .halfClose
    case .close: self = .close
    case .reset: self = .reset
    case .stopReading(let until): self = .stopReading(until: until)
    case .wake(let at): self = .wake(at: at)
    }
  }
}
