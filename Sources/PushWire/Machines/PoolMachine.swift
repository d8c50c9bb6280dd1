/// Decides when an app may open a connection, adds a lane, and gives up a gateway that it has never
/// reached.
package struct PoolMachine: Sendable {
  package struct Limits: Sendable {
    package var lanes: ClosedRange<Int>
    package var connectionsPerMinute: Double
    package var dialAttempts: Int

    package init(lanes: ClosedRange<Int>, connectionsPerMinute: Double, dialAttempts: Int) {
      (self.lanes, self.connectionsPerMinute, self.dialAttempts) = (lanes, connectionsPerMinute, dialAttempts)
    }
  }

  /// How a connection ended, or failed to begin.
  package enum Ending: Hashable, Sendable {
    /// The connection settled something, or had nothing to send.
    case ordinary
    /// The connection had something to send and settled none of it.
    case fruitless
    /// The connection was never established.
    case unreachable(String)
    /// The gateway refused the certificate.
    case refused(String)
  }

  package enum Permission: Hashable, Sendable {
    case now
    case later(Instant)
  }

  private var limits: Limits
  /// As many lanes as it may have where nobody else has some.
  private let configuredLanes: ClosedRange<Int>
  private var bucket: TokenBucket
  private var hasBeenOpen = false
  private var failedDials = 0
  /// A producer waits for room since then; how many notifications had their outcome then.
  private var starving: (since: Instant, last: Instant, settledCount: Int)?
  package private(set) var laneCount: Int
  /// The number of lanes that have not had a connection: their effect is not known yet.
  private var newLaneCount: Int
  private var trial = GrowthTrial()

  package init(limits: Limits, now: Instant) {
    self.limits = limits
    configuredLanes = limits.lanes
    laneCount = limits.lanes.lowerBound
    newLaneCount = limits.lanes.lowerBound
    bucket = TokenBucket(
      perSecond: limits.connectionsPerMinute / 60,
      burst: max(Double(limits.lanes.upperBound), limits.connectionsPerMinute / 4), now: now)
  }

  /// Asks for permission to open a connection.
  package mutating func mayDial(now: Instant) -> Permission {
    bucket.take(upTo: 1, now: now) == 1 ? .now : .later(bucket.nextAt(now: now))
  }

  /// A connection has opened.
  ///
  /// - Parameter isFirst: the first one of its lane.
  package mutating func opened(isFirst: Bool, now: Instant) {
    hasBeenOpen = true
    failedDials = 0
    guard isFirst else { return }
    newLaneCount = max(0, newLaneCount - 1)
    // A shortage from before counts no more, because the lanes may now be fast enough.
    starving = nil
    if newLaneCount == 0 { trial.opened(now: now) }
  }

  /// A connection has ended. Returns the reason if the gateway must be given up at once. After a
  /// first connection, only ``ProgressWatchdog`` gives a gateway up.
  package mutating func ended(_ ending: Ending) -> String? {
    switch ending {
    case .ordinary, .fruitless: return nil
    case .refused(let reason): return "\(reason); renew the certificate, or check its topic and environment"
    case .unreachable(let reason):
      failedDials += 1
      // Failed dials of all lanes count together: the lanes dial at the same time, and each failure
      // says the same.
      return !hasBeenOpen && failedDials >= limits.dialAttempts ? reason : nil
    }
  }

  /// What to do about a shortage of room.
  package enum Growth: Hashable, Sendable {
    /// There are enough lanes, or as many as allowed.
    case none
    /// Add this many lanes.
    case add(Int)
    /// Call ``PoolMachine/starved(mayGrow:mayJudge:usefulLaneCount:settledCount:now:)`` again at
    /// this time if a producer still waits.
    case look(Instant)
    /// Remove this many lanes, the newest ones: they take nothing new, and leave when all they hold
    /// has its outcome. They brought next to nothing.
    case takeBack(Int)
  }

  /// A producer found no room in any lane, or still waits for some.
  ///
  /// Lanes take ahead what they send in about 300 ms (``BacklogLimit``), so a producer that finds
  /// all of them full has more than that. Every fast producer fills them now and then. So a
  /// shortage counts only when it has lasted, while every lane has had a connection. Then the
  /// number of lanes doubles, and an app far from its service has all its connections within the
  /// first second.
  ///
  /// - Parameters:
  ///   - mayGrow: false while the app is in trouble, because more connections would not help.
  ///   - mayJudge: false: clients have waited, too, and they decide how fast notifications come.
  ///     Then no doubling is taken back.
  ///   - usefulLaneCount: how many lanes could soon send what the lanes have to resend; 0 if they
  ///     need no help. This count is based on measurements, so the pool grows at once.
  ///   - settledCount: how many of the app's notifications have their outcome, from any start.
  package mutating func starved(
    mayGrow: Bool, mayJudge: Bool = true, usefulLaneCount: Int = 0, settledCount: Int = 0, now: Instant
  ) -> Growth {
    if mayGrow, usefulLaneCount > 0, newLaneCount == 0, laneCount < limits.lanes.upperBound {
      trial.forget()
      return grow(to: max(usefulLaneCount, laneCount * 2))
    }
    guard laneCount < limits.lanes.upperBound || trial.isRunning else { return .none }
    // An outage says nothing about the lanes, nor does a time without a shortage.
    let isLasting = starving.map { now.since($0.last) <= Self.shortage * 2 }
    if !mayGrow || !mayJudge || isLasting == false { trial.forget() }
    guard mayGrow, newLaneCount == 0, let starving, isLasting == true else {
      starving = (now, now, settledCount)
      return .look(now + Self.shortage)
    }
    self.starving?.last = now
    switch mayJudge ? trial.judge(settledCount: settledCount, now: now) : .proceed {
    case .wait(let until): return .look(min(until, now + Self.shortage))
    case .takeBack(let count):
      self.starving = nil
      let removed = min(count, laneCount - limits.lanes.lowerBound)
      laneCount -= removed
      return removed > 0 ? .takeBack(removed) : .none
    case .proceed: break
    }
    guard laneCount < limits.lanes.upperBound else { return .none }
    let elapsed = now.since(starving.since)
    guard elapsed >= Self.shortage else { return .look(starving.since + Self.shortage) }
    let growth = grow(to: laneCount * 2)
    if case .add(let count) = growth {
      trial.began(added: count, rate: Double(settledCount - starving.settledCount) / elapsed.inSeconds, now: now)
    }
    return growth
  }

  /// There may be this many lanes from now on, or as many as are configured if those are fewer.
  package mutating func limit(lanes count: Int) -> Growth {
    limits.lanes = min(configuredLanes.lowerBound, count)...min(configuredLanes.upperBound, count)
    let excess = laneCount - limits.lanes.upperBound
    if excess > 0 {
      trial.forget()
      starving = nil
      laneCount -= excess
      newLaneCount = min(newLaneCount, laneCount)
      return .takeBack(excess)
    }
    return laneCount < limits.lanes.lowerBound ? grow(to: limits.lanes.lowerBound) : .none
  }

  /// A refusal ended a connection, and no other open connection is idle. Returns whether to add a
  /// lane, whose connection then waits for the next refusal.
  package mutating func mayAddSpare() -> Bool {
    guard laneCount < limits.lanes.upperBound, newLaneCount == 0 else { return false }
    laneCount += 1
    newLaneCount += 1
    return true
  }

  private mutating func grow(to count: Int) -> Growth {
    starving = nil
    let added = min(count, limits.lanes.upperBound) - laneCount
    laneCount += added
    newLaneCount += added
    return .add(added)
  }

  /// How long a shortage must last before it counts.
  private static let shortage = Duration.milliseconds(80)

  /// A lane has closed its connection because it was idle. Returns whether to remove the lane.
  package mutating func idled() -> Bool {
    guard laneCount > limits.lanes.lowerBound else { return false }
    laneCount -= 1
    return true
  }

  /// A lane that was to be removed has work again.
  package mutating func stayed() { laneCount += 1 }
}
