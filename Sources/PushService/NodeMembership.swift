internal import Carillon
package import Logging
package import PushStore
package import PushWire
internal import ServiceLifecycle
internal import Synchronization

/// This process among those that share a store. All of them serve, and one leads: it does what only
/// one may do.
package final class NodeMembership: Service {
  /// Another one has taken the place of this process.
  package struct Fenced: Error, CustomStringConvertible {
    let by: String?

    package var description: String {
      "this service was silent for so long that \(by.map { "the one on \($0)" } ?? "another one") has taken its place"
    }
  }

  private struct State {
    var leads = false
    /// With this process.
    var aliveCount = 1
    var watch: NodeWatch
    /// As they were seen last; empty: no other process can use the store.
    var nodes: [StoredNode] = []
    /// How far this clock is ahead of the store's; nil: not measured.
    var clockOffset: Duration?
    var joinedAt: StoreInstant?
    /// What all have told, and when that was asked; see ``others()``.
    var statuses: (known: [Int64: NodeStatus], at: Instant)?
  }

  /// What the journal of a process remembers of the one that had it before.
  package struct Memory: Sendable {
    /// Of the last process that had the journal; nil: none has joined.
    let former: Int64?
    /// Otherwise the next process waits until this one is silent.
    let note: @Sendable (Int64) throws -> Void

    package init(former: Int64?, note: @escaping @Sendable (Int64) throws -> Void) {
      (self.former, self.note) = (former, note)
    }
  }

  /// For tests of the simulation.
  package enum PlantedMistake: Sendable {
    /// Whoever was silent by the store's clock is silent. A standby that was promoted has another
    /// one.
    case trustsTheStoresClock
  }

  let store: any Store
  package let name: String
  private let plantedMistake: PlantedMistake?
  /// Nil: the store is this process's alone.
  private let memory: Memory?
  private let clock: any ServiceClock
  /// Called with until when this process may send what others may take over, and the time.
  private let extendLease: @Sendable (_ end: Instant, _ now: Instant) -> Void
  /// Called with a sentence while it waits.
  private let waits: @Sendable (String) -> Void
  private let logger: Logger
  /// 0: it has not entered.
  private let incarnation = Atomic<Int64>(0)
  private let state: Mutex<State>
  private let pace: NodePace
  /// What it says of itself, besides its clock and its lease.
  private let facts: @Sendable () -> NodeFacts

  /// Looks between two beats.
  private static let beatRareness = 2
  /// The answer to a beat that took longer says too little about the clocks.
  private static let longestClockReading = Duration.milliseconds(500)

  package init(
    store: any Store, name: String, memory: Memory?, pace: NodePace = NodePace(), clock: any ServiceClock,
    logger: Logger, plantedMistake: PlantedMistake? = nil,
    facts: @escaping @Sendable () -> NodeFacts = { NodeFacts() },
    extendLease: @escaping @Sendable (_ end: Instant, _ now: Instant) -> Void,
    waits: @escaping @Sendable (String) -> Void = { _ in }
  ) {
    (self.store, self.name, self.memory, self.pace, self.clock) = (store, name, memory, pace, clock)
    (self.facts, self.extendLease, self.waits, self.logger) = (facts, extendLease, waits, logger)
    self.plantedMistake = plantedMistake
    state = Mutex(State(watch: NodeWatch(longestPause: pace.longestPause)))
  }

  /// Whether other processes can use the store.
  package var isShared: Bool { memory != nil }

  /// The incarnation of this process; 0: it has not entered.
  package var current: Int64 { incarnation.load(ordering: .relaxed) }

  /// Whether this is the one that does what only one may do.
  package var leads: Bool { state.withLock { $0.leads } }

  /// Whether it is to give back what it carries, and to take nothing more.
  package var isDraining: Bool { own?.isDraining ?? false }

  /// How far this clock is ahead of the store's; nil: not measured.
  package var clockOffset: Duration? { state.withLock { $0.clockOffset } }

  /// All nodes, as they were seen within about a second; empty: no other process can use the store.
  package var lastSeen: [StoredNode] { state.withLock { $0.nodes } }

  /// This process, where no other one can use the store.
  var onlyNode: StoredNode {
    var node = StoredNode(name: name, incarnation: 0, beat: 0, isAlive: true, leads: true)
    (node.facts, node.joinedAt) = (ownFacts, state.withLock { $0.joinedAt })
    return node
  }

  /// What other nodes that live have told of themselves, in the order of their names. Some seconds
  /// old, also because all who ask share one look.
  package func others() async -> [(name: String, status: NodeStatus)] {
    let own = current
    let nodes = lastSeen.filter { $0.isAlive && $0.incarnation != own }
    guard !nodes.isEmpty else { return [] }
    let now = clock.uptime
    let isFresh = state.withLock { state in
      if let at = state.statuses?.at, now.since(at) < Self.statusAge { return true }
      state.statuses = (state.statuses?.known ?? [:], now)
      return false
    }
    if !isFresh, let found = try? await store.nodeStatuses() {
      let known = found.mapValues(NodeStatus.init(reading:))
      state.withLock { $0.statuses = (known, now) }
    }
    let known = state.withLock { $0.statuses?.known ?? [:] }
    return nodes.map { ($0.name, known[$0.incarnation] ?? NodeStatus()) }
  }

  private static let statusAge = Duration.seconds(2)

  /// How many services share the store, with this one.
  package var aliveCount: Int { state.withLock { $0.aliveCount } }

  /// Which of the services that share the store this one is, in the order in which they joined.
  package var place: (own: Int, count: Int) {
    let own = current
    let alive = lastSeen.filter(\.isAlive).map(\.incarnation)
    return (alive.count { $0 < own }, max(1, alive.count))
  }

  private var own: StoredNode? {
    let own = current
    return state.withLock { $0.nodes.first { $0.incarnation == own } }
  }

  // MARK: Entering

  /// Returns when this process is one of those that serve.
  ///
  /// The journal is locked by now, so whoever had it before has ended, and is not waited for.
  ///
  /// - Throws: ``CarillonError`` if another one has the same name, and lives.
  package func enter() async throws {
    let began = clock.uptime
    var isNoted = false
    while let nodes = try await clock.waiting({ () async throws(StoreError) in try await store.nodes() }) {
      let joined = try await clock.waiting { () async throws(StoreError) in
        try await store.join(name, replacing: memory?.former)
      }
      if let joined {
        try memory?.note(joined)
        incarnation.store(joined, ordering: .relaxed)
        state.withLock { $0.joinedAt = clock.now }
        // Before it relies on its lease.
        _ = try await clock.waiting { () async throws(StoreError) in try await tell() }
        await look()
        // Until then others may use the whole of what is shared.
        if aliveCount > 1 { try await clock.sleep(for: NodePace.longestLookInterval * 2) }
        return
      }
      let waited = clock.uptime.since(began)
      guard waited < pace.nameWait else {
        throw CarillonError(
          .configuration,
          "Another service on the database is called \"\(name)\": give this one another name, cluster: { node: … }.")
      }
      if !isNoted {
        isNoted = true
        logger.notice(
          "another service has the name of this one, which waits until it ends, or is silent",
          metadata: ["node": "\(name)"])
      }
      waits("Waiting: another service is called \(name).")
      await fenceSilent(nodes)
      try await clock.sleep(for: pace.lookInterval)
    }
    // No other process can use the store.
    state.withLock { ($0.leads, $0.joinedAt) = (true, clock.now) }
  }

  // MARK: Living

  package func run() async throws { try await cancelWhenGracefulShutdown { [self] in try await live() } }

  /// Gives signs of life, and watches the others, until the task is cancelled.
  ///
  /// - Throws: ``Fenced``
  package func live() async throws {
    var count = 0
    while (try? await clock.sleep(for: pace.lookInterval)) != nil {
      guard current != 0 else { continue }
      if count % Self.beatRareness == 0 { try await beat() }
      count += 1
      await look()
    }
  }

  private func beat() async throws {
    let isAlive: Bool
    do throws(StoreError) { isAlive = try await tell() } catch {
      // Nobody else can take its place meanwhile, unless only this machine is cut off.
      return
    }
    guard !isAlive else { return }
    throw Fenced(by: (try? await store.nodes())??.first { $0.leads }?.name)
  }

  /// - Returns: false if another one has taken its place.
  private func tell() async throws(StoreError) -> Bool {
    let (began, time) = (clock.uptime, clock.now)
    guard let stored = try await store.beat(of: current, telling: ownFacts) else { return false }
    extendLease(began + pace.validity, clock.uptime)
    let taken = clock.uptime.since(began)
    if taken < Self.longestClockReading {
      let offset = Duration.milliseconds(time.milliseconds - stored.milliseconds) + taken / 2
      state.withLock { $0.clockOffset = offset }
    }
    return true
  }

  private var ownFacts: NodeFacts {
    var facts = facts()
    (facts.lease, facts.clockOffset) = (pace.lease, clockOffset)
    return facts
  }

  /// Who is alive, who is silent, and who leads. While the store is away all stays as it is.
  func look() async {
    guard let nodes = (try? await store.nodes()) ?? nil else { return }
    await fenceSilent(nodes)
    let own = current
    var leader = nodes.first(where: \.leads)
    let isDraining = nodes.contains { $0.incarnation == own && $0.isDraining }
    if leader == nil, !isDraining || !nodes.contains(where: { $0.canLead(insteadOf: own) }),
      (try? await store.lead(own)) == true
    {
      leader = nodes.first { $0.incarnation == own }
    }
    let isNew = state.withLock { state in
      let led = state.leads
      state.nodes = nodes
      state.aliveCount = max(1, nodes.count(where: \.isAlive))
      state.leads = leader?.incarnation == own
      return state.leads && !led
    }
    if isNew { logger.notice("this service leads", metadata: ["node": "\(name)"]) }
  }

  private func fenceSilent(_ nodes: [StoredNode]) async {
    let own = current
    let others = nodes.filter { $0.isAlive && $0.incarnation != own }
    let signs = others.map {
      NodeWatch.Sign(node: $0.name, incarnation: $0.incarnation, beat: $0.beat, lease: $0.facts.lease)
    }
    let now = clock.uptime
    var silent = state.withLock { $0.watch.note(signs, at: now) }
    if plantedMistake == .trustsTheStoresClock {
      silent = zip(signs, others).filter { $1.silence >= $0.lease }.map { $0.0 }
    }
    for sign in silent {
      guard let node = others.first(where: { $0.name == sign.node }), (try? await store.fence(node)) == true else {
        continue
      }
      logger.warning("a service was silent, and others take its place", metadata: ["node": "\(node.name)"])
    }
  }

  /// Lets another node lead, if this one is drained and another one can.
  package func handOn() async {
    let own = current
    let canHandOn = state.withLock { state in
      state.leads && state.nodes.contains { $0.incarnation == own && $0.isDraining }
        && state.nodes.contains { $0.canLead(insteadOf: own) }
    }
    guard canHandOn, (try? await store.yield(own)) != nil else { return }
    state.withLock { $0.leads = false }
    logger.notice("this service leads no longer, because it is drained", metadata: ["node": "\(name)"])
  }

  /// The last call: others need not wait until this one is silent.
  package func leave() async {
    let own = incarnation.exchange(0, ordering: .relaxed)
    if own != 0 { try? await store.leave(own) }
  }
}

extension StoredNode {
  fileprivate func canLead(insteadOf other: Int64) -> Bool { isAlive && !isDraining && incarnation != other }
}

/// How often nodes look at each other: as their lease demands.
package struct NodePace: Hashable, Sendable {
  /// How long a node may be silent until others take its place. Each has its own, and tells it.
  package let lease: Duration

  package init(lease: Duration = NodeFacts.usualLease) { self.lease = lease }

  static let longestLookInterval = Duration.seconds(1)

  var lookInterval: Duration { min(Self.longestLookInterval, lease / 10) }
  /// Between two looks that are further apart, the store may have been away.
  var longestPause: Duration { lookInterval * 3 }
  /// How long a process waits for another one of the same name, which may be ending.
  var nameWait: Duration { lease * 6 }
  /// How long a node uses a share of a rate, and sends what others may take over, after it asked
  /// for the last word that it got. Others wait for the lease: clocks of different speeds measure
  /// it.
  var validity: Duration { lease * 3 / 5 }
}
