/// Decides when an app may open a connection, adds a lane, and gives up a gateway that it has never
/// reached.
package struct PoolMachine: Sendable {
  package struct Limits: Sendable {
    package var lanes: ClosedRange<Int>
    package var connectionsPerMinute: Double
    package var dialAttempts: Int

    package init(lanes: ClosedRange<Int>, connectionsPerMinute: Double, dialAttempts: Int) {
      self.lanes = lanes
      self.connectionsPerMinute = connectionsPerMinute
      self.dialAttempts = dialAttempts
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

  private let limits: Limits
  private var bucket: TokenBucket
  private var hasBeenOpen = false
  private var failedDials = 0
  private var starving: (since: Instant, last: Instant)?
  package private(set) var laneCount: Int
  /// The number of lanes that have not had a connection: their effect is not known yet.
  private var newLaneCount: Int

  package init(limits: Limits, now: Instant) {
    self.limits = limits
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
  }

  /// A connection has ended. Returns the reason if the gateway must be given up at once. After a
  /// first connection, only ``ProgressWatchdog`` gives a gateway up.
  package mutating func ended(_ ending: Ending) -> String? {
    switch ending {
    case .ordinary, .fruitless:
      return nil
    case .refused(let reason):
      return "\(reason); renew the certificate, or check its topic and environment"
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
    /// Call ``PoolMachine/starved(mayGrow:usefulLaneCount:now:)`` again at this time if a producer
    /// still waits.
    case look(Instant)
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
  ///   - usefulLaneCount: how many lanes could soon send what the lanes have to resend; 0 if they
  ///     need no help. This count is based on measurements, so the pool grows at once.
  package mutating func starved(mayGrow: Bool, usefulLaneCount: Int = 0, now: Instant) -> Growth {
    guard laneCount < limits.lanes.upperBound else { return .none }
    if mayGrow, usefulLaneCount > 0, newLaneCount == 0 { return grow(to: max(usefulLaneCount, laneCount * 2)) }
    guard mayGrow, newLaneCount == 0, let starving, now.since(starving.last) <= Self.shortage * 2 else {
      starving = (now, now)
      return .look(now + Self.shortage)
    }
    guard now.since(starving.since) >= Self.shortage else {
      self.starving = (starving.since, now)
      return .look(starving.since + Self.shortage)
    }
    return grow(to: laneCount * 2)
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
  package mutating func stayed() {
    laneCount += 1
  }
}
