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
    var leader: String?
    /// With this process.
    var aliveCount = 1
    var watch = NodeWatch(lease: NodeMembership.lease)
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

  private let store: any Store
  private let name: String
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
  private let state = Mutex(State())

  static let lease = Duration.seconds(10)
  /// How long this process sends what others may take over, after it asked for the last beat that
  /// was answered: less than the lease, whose length clocks of different speeds measure.
  static let sendTime = Duration.seconds(6)
  private static let lookInterval = Duration.seconds(1)
  /// Looks between two beats.
  private static let beatRareness = 2
  /// How long a process waits for another one of the same name, which may be ending.
  private static let nameWait = Duration.seconds(60)

  package init(
    store: any Store, name: String, memory: Memory?, clock: any ServiceClock, logger: Logger,
    extendLease: @escaping @Sendable (_ end: Instant, _ now: Instant) -> Void,
    waits: @escaping @Sendable (String) -> Void = { _ in }
  ) {
    (self.store, self.name, self.memory, self.clock) = (store, name, memory, clock)
    (self.extendLease, self.waits, self.logger) = (extendLease, waits, logger)
  }

  /// Whether other processes can use the store.
  package var isShared: Bool { memory != nil }

  /// The incarnation of this process; 0: it has not entered.
  package var current: Int64 { incarnation.load(ordering: .relaxed) }

  /// Whether this is the one that does what only one may do.
  package var leads: Bool { state.withLock { $0.leads } }

  /// The name of the one that leads; nil: none is known.
  package var leader: String? { state.withLock { $0.leader } }

  /// How many services share the store, with this one.
  package var aliveCount: Int { state.withLock { $0.aliveCount } }

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
      let asked = clock.uptime
      let joined = try await clock.waiting { () async throws(StoreError) in
        try await store.join(name, replacing: memory?.former)
      }
      if let joined {
        try memory?.note(joined)
        extendLease(asked + Self.sendTime, clock.uptime)
        incarnation.store(joined, ordering: .relaxed)
        await look()
        // Until then others may use the whole of what is shared.
        if aliveCount > 1 { try await clock.sleep(for: Self.lookInterval * 2) }
        return
      }
      let waited = clock.uptime.since(began)
      guard waited < Self.nameWait else {
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
      try await clock.sleep(for: Self.lookInterval)
    }
    // No other process can use the store.
    state.withLock { $0.leads = true }
  }

  // MARK: Living

  package func run() async throws { try await cancelWhenGracefulShutdown { [self] in try await live() } }

  /// Gives signs of life, and watches the others, until the task is cancelled.
  ///
  /// - Throws: ``Fenced``
  package func live() async throws {
    var count = 0
    while (try? await clock.sleep(for: Self.lookInterval)) != nil {
      guard current != 0 else { continue }
      if count % Self.beatRareness == 0 { try await beat() }
      count += 1
      await look()
    }
  }

  private func beat() async throws {
    let asked = clock.uptime
    let isAlive: Bool
    do throws(StoreError) { isAlive = try await store.beat(of: current) } catch {
      // Nobody else can take its place meanwhile, unless only this machine is cut off.
      return
    }
    guard !isAlive else { return extendLease(asked + Self.sendTime, clock.uptime) }
    throw Fenced(by: (try? await store.nodes())??.first { $0.leads }?.name)
  }

  /// Who is alive, who is silent, and who leads. While the store is away all stays as it is.
  private func look() async {
    guard let nodes = (try? await store.nodes()) ?? nil else { return }
    await fenceSilent(nodes)
    let own = current
    var leader = nodes.first(where: \.leads)
    if leader == nil, (try? await store.lead(own)) == true { leader = nodes.first { $0.incarnation == own } }
    let isNew = state.withLock { state in
      let led = state.leads
      state.aliveCount = max(1, nodes.count(where: \.isAlive))
      (state.leads, state.leader) = (leader?.incarnation == own, leader?.name)
      return state.leads && !led
    }
    if isNew { logger.notice("this service leads", metadata: ["node": "\(name)"]) }
  }

  private func fenceSilent(_ nodes: [StoredNode]) async {
    let own = current
    let others = nodes.filter { $0.isAlive && $0.incarnation != own }
    let signs = others.map { NodeWatch.Sign(node: $0.name, incarnation: $0.incarnation, beat: $0.beat) }
    let now = clock.uptime
    for sign in state.withLock({ $0.watch.note(signs, at: now) }) {
      guard let node = others.first(where: { $0.name == sign.node }), (try? await store.fence(node)) == true else {
        continue
      }
      logger.warning("a service was silent, and others take its place", metadata: ["node": "\(node.name)"])
    }
  }

  /// The last call: others need not wait until this one is silent.
  package func leave() async {
    let own = incarnation.exchange(0, ordering: .relaxed)
    if own != 0 { try? await store.leave(own) }
  }
}
