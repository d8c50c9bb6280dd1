internal import Logging
internal import PushService
internal import PushStore
internal import PushWire
internal import ServiceLifecycle
internal import Synchronization

/// This process among those that share a store. One of them serves: the others wait until it
/// leaves, or is silent.
final class NodeMembership: Service {
  /// Another one has taken the place of this process.
  struct Fenced: Error, CustomStringConvertible {
    let by: String?

    var description: String {
      "this service was silent for so long that \(by.map { "the one on \($0)" } ?? "another one") has taken its place"
    }
  }

  private let store: any Store
  private let name: String
  /// Nil: the store is this process's alone.
  private let file: NodeFile?
  private let clock: any ServiceClock
  private let manager: ServiceManager?
  private let logger: Logger
  /// 0: it has not entered.
  private let incarnation = Atomic<Int64>(0)

  static let lease = Duration.seconds(10)
  private static let interval = Duration.seconds(2)
  private static let lookInterval = Duration.seconds(1)

  init(
    store: any Store, name: String, file: NodeFile?, clock: any ServiceClock, manager: ServiceManager?, logger: Logger
  ) {
    (self.store, self.name, self.file, self.clock) = (store, name, file, clock)
    (self.manager, self.logger) = (manager, logger)
  }

  /// The incarnation of this process; 0: it has not entered.
  var current: Int64 { incarnation.load(ordering: .relaxed) }

  // MARK: Entering

  /// Returns when this process is the one that serves.
  ///
  /// The journal is locked by now, so whoever had it before has ended, and is not waited for.
  func enter() async throws {
    var watch = NodeWatch(lease: Self.lease)
    var waitsFor: String?
    let former = file?.incarnation
    while let nodes = try await clock.waiting({ () async throws(StoreError) in try await store.nodes() }) {
      let own = incarnation.load(ordering: .relaxed)
      if own == 0, let joined = try await join(replacing: former) {
        try note(joined)
        continue
      }
      if own != 0, try await lead(own) { return }
      let others = nodes.filter { $0.isAlive && $0.incarnation != own && $0.incarnation != former }
      let signs = others.map { NodeWatch.Sign(node: $0.name, incarnation: $0.incarnation, beat: $0.beat) }
      for silent in watch.note(signs, at: clock.uptime) { try await fence(silent, among: others) }
      if let other = others.first(where: \.leads) ?? others.first, waitsFor != other.name {
        waitsFor = other.name
        logger.notice(
          "another service has the store: this one waits until it ends, or is silent",
          metadata: ["node": "\(other.name)"])
      }
      if let waitsFor { manager?.waits(status: "Waiting: the service on \(waitsFor) has the store.") }
      try await clock.sleep(for: Self.lookInterval)
    }
  }

  private func join(replacing former: Int64?) async throws -> Int64? {
    try await clock.waiting { () async throws(StoreError) in
      try await store.join(name, replacing: former)
    }
  }

  private func lead(_ own: Int64) async throws -> Bool {
    try await clock.waiting { () async throws(StoreError) in try await store.lead(own) }
  }

  private func fence(_ sign: NodeWatch.Sign, among nodes: [StoredNode]) async throws {
    guard let node = nodes.first(where: { $0.name == sign.node }) else { return }
    let isFenced = try await clock.waiting { () async throws(StoreError) in try await store.fence(node) }
    guard isFenced else { return }
    logger.warning("a service was silent, and this one takes its place", metadata: ["node": "\(node.name)"])
  }

  private func note(_ joined: Int64) throws {
    try file?.write(joined)
    incarnation.store(joined, ordering: .relaxed)
  }

  // MARK: Living

  func run() async throws {
    try await cancelWhenGracefulShutdown { [self] in
      while (try? await clock.sleep(for: Self.interval)) != nil { try await beat() }
    }
  }

  private func beat() async throws {
    let own = incarnation.load(ordering: .relaxed)
    guard own != 0 else { return }
    let isAlive: Bool
    do throws(StoreError) { isAlive = try await store.beat(of: own) } catch {
      // Nobody else can enter meanwhile, unless only this machine is cut off.
      return
    }
    guard !isAlive else { return }
    throw Fenced(by: (try? await store.nodes())??.first { $0.leads }?.name)
  }

  /// The last call: others need not wait until this one is silent.
  func leave() async {
    let own = incarnation.exchange(0, ordering: .relaxed)
    if own != 0 { try? await store.leave(own) }
  }
}
