internal import Carillon
internal import PushEngine
internal import PushStore
internal import PushWire
internal import Synchronization

/// Keeps the rate limits of apps and campaigns together with the other processes that share the
/// store.
final class SharedRates: Sendable {
  /// What a limit is for.
  private enum Limited {
    case app(PushApp)
    case campaign(CampaignPace)

    func takeUse() -> RateUse {
      switch self {
      case .app(let app): app.takeRateUse()
      case .campaign(let pace): pace.takeUse()
      }
    }

    func use(_ perSecond: Double, for duration: Duration) {
      switch self {
      case .app(let app): app.useRate(perSecond: perSecond, for: duration)
      case .campaign(let pace): pace.use(perSecond: perSecond, for: duration)
      }
    }
  }

  private struct Entry {
    let limited: Limited
    var machine: BudgetMachine
    var wantsMore = false

    /// The next exchange may change its share.
    var isMoving: Bool { wantsMore || machine.isHolding }

    func apply(now: Instant) { limited.use(machine.usable(now: now), for: machine.remaining(now: now)) }
  }

  private let ledger: any Ledger
  private let incarnation: @Sendable () -> Int64
  private let deployment: Deployment
  private let controller: CampaignController

  private let pace: NodePace
  private static let lookInterval = Duration.milliseconds(250)
  /// Between two exchanges while no limit is reached, if the lease is long enough.
  private static let idleInterval = Duration.seconds(2)
  /// What would be used is a little more than what was.
  private static let headroom = 1.25

  init(
    ledger: any Ledger, incarnation: @escaping @Sendable () -> Int64, pace: NodePace, deployment: Deployment,
    controller: CampaignController
  ) {
    (self.ledger, self.incarnation, self.deployment, self.controller) = (ledger, incarnation, deployment, controller)
    self.pace = pace
  }

  private var clock: any ServiceClock { controller.clock }

  /// Asks for shares until the task is cancelled. Call it once the node has joined.
  func run() async {
    var entries: [String: Entry] = [:]
    var exchangedAt = clock.uptime
    var (looks, number) = (0, Int64(0))
    let idleRareness = Int(min(Self.idleInterval, pace.validity / 3) / Self.lookInterval)
    // Limits of which the store may have a share of this process.
    var known: Set<String> = []
    while !Task.isCancelled {
      // Others wait for the share of a limit that is not needed any more.
      let hasChanged = update(&entries) || known != Set(entries.keys)
      for entry in entries.values where entry.machine.isRaising { entry.apply(now: clock.uptime) }
      looks += 1
      if hasChanged || looks >= idleRareness || entries.values.contains(where: \.isMoving) {
        looks = 0
        let now = clock.uptime
        number += 1
        // Also if its answer is lost.
        known.formUnion(entries.keys)
        if !known.isEmpty, await exchange(&entries, number: number, since: exchangedAt) { known = Set(entries.keys) }
        exchangedAt = now
      }
      await clock.sleep(for: Self.lookInterval, orUntil: controller.rateSignal)
    }
  }

  /// - Returns: whether there is a limit that was not there before, or another one.
  private func update(_ entries: inout [String: Entry]) -> Bool {
    var isNew = false
    var present: [String: Entry] = [:]
    func add(_ name: String, _ limit: Double, _ limited: Limited) {
      let known = entries[name]
      if known?.machine.limit != limit { isNew = true }
      var machine = known?.machine ?? BudgetMachine(limit: limit, validity: pace.validity)
      machine.limit = limit
      present[name] = Entry(limited: limited, machine: machine, wantsMore: known?.wantsMore ?? false)
    }
    for app in deployment.apps {
      if let limit = app.configuration.rateLimit { add("app/\(app.id)", limit, .app(app)) }
    }
    for live in controller.all where live.isSending {
      if let pace = live.knownPace { add("campaign/\(live.id.text)", pace.perSecond, .campaign(pace)) }
    }
    // Before the store hears that it is not needed.
    for (name, entry) in entries where present[name] == nil { entry.limited.use(0, for: .zero) }
    entries = present
    return isNew
  }

  /// - Returns: whether the store knows which limits this process needs.
  private func exchange(_ entries: inout [String: Entry], number: Int64, since last: Instant) async -> Bool {
    let now = clock.uptime
    let seconds = max(now.since(last).inSeconds, 0.001)
    var claims: [RateClaim] = []
    for name in entries.keys.sorted() {
      guard var entry = entries[name] else { continue }
      let use = entry.limited.takeUse()
      entry.wantsMore = use.wantsMore
      let claim = entry.machine.claim(
        demand: use.wantsMore ? entry.machine.limit : Double(use.count) / seconds * Self.headroom, now: now)
      entry.apply(now: now)
      entries[name] = entry
      claims.append(
        RateClaim(
          name: name, limit: entry.machine.limit.perThousandSeconds, share: claim.share.perThousandSeconds,
          demand: claim.demand.perThousandSeconds))
    }
    // While the store is away shares end by themselves.
    guard let shares = try? await ledger.exchange(claims, number: number, by: incarnation()) else { return false }
    for (name, share) in shares {
      entries[name]?.machine.granted(
        Double(share.share) / 1000,
        besides: share.peers.map {
          BudgetMachine.Peer(share: Double($0.share) / 1000, demand: Double($0.demand) / 1000)
        }, isUsed: share.isUsed, asked: now, now: clock.uptime)
      entries[name]?.apply(now: clock.uptime)
    }
    return true
  }
}

extension Double {
  /// Rounded down, so that a sum of shares is never above a limit.
  fileprivate var perThousandSeconds: Int64 { Int64(max(0, min(self * 1000, 1e15))) }
}
