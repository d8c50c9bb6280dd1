/// When an app may open a connection, add a lane, or must give up a gateway that it never reached.
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

  /// How a connection ended, or failed to begin, as far as the pool cares.
  package enum Ending: Hashable, Sendable {
    /// It got something done, or had nothing to do.
    case ordinary
    /// It had something to do and ended without getting any of it done.
    case fruitless
    /// No connection came about.
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
  /// Lanes that have had no connection yet: what they will bring is not known.
  private var newLaneCount: Int

  package init(limits: Limits, now: Instant) {
    self.limits = limits
    laneCount = limits.lanes.lowerBound
    newLaneCount = limits.lanes.lowerBound
    bucket = TokenBucket(perSecond: limits.connectionsPerMinute / 60, burst: max(Double(limits.lanes.upperBound), limits.connectionsPerMinute / 4), now: now)
  }

  /// A lane wants to connect.
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
    // What was too slow before may be fast enough now.
    starving = nil
  }

  /// A connection has ended. Returns why the gateway must be given up at once, if it must. A gateway that was reached once is given up
  /// by ``TroubleMachine`` alone.
  package mutating func ended(_ ending: Ending) -> String? {
    switch ending {
    case .ordinary, .fruitless:
      return nil
    case .refused(let reason):
      return "the gateway refused the certificate: \(reason)"
    case .unreachable(let reason):
      failedDials += 1
      // Over all lanes together: they try side by side, and the second to find nobody there knows no more than the first.
      return !hasBeenOpen && failedDials >= limits.dialAttempts ? reason : nil
    }
  }

  /// What to do about a shortage of room.
  package enum Growth: Hashable, Sendable {
    /// As many lanes as are needed, or as there may be.
    case none
    /// Add so many lanes.
    case add(Int)
    /// Look again then, whether a producer still waits: ``PoolMachine/starved(mayGrow:now:)``.
    case look(Instant)
  }

  /// A producer found no room in any lane, or still waits for some.
  ///
  /// Lanes take ahead what they send in about 300 ms (``BacklogLimit``), so whoever finds all of them full has more than that. Every fast producer fills them now
  /// and then: a shortage counts when it has lasted, while every lane has had a connection. Then the number of lanes doubles, so that an app that is far from its
  /// service has all of its connections within the first second.
  ///
  /// - Parameters:
  ///   - mayGrow: false while the app is in trouble: more connections would not help.
  ///   - usefulLaneCount: so many lanes could send soon what the lanes have to send again; 0 if they can
  ///     do so themselves. That follows from what was measured already, so nothing is waited for.
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

  /// A connection was refused something, and none is open that has nothing to do. Returns whether to
  /// add a lane, whose connection then waits for the next refusal.
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

  /// How long a shortage lasts before it counts.
  private static let shortage = Duration.milliseconds(80)

  /// A lane has had nothing to do for so long that it has left its connection. Returns whether to take it away.
  package mutating func idled() -> Bool {
    guard laneCount > limits.lanes.lowerBound else { return false }
    laneCount -= 1
    return true
  }

  /// A lane that was to be taken away has got something to do meanwhile.
  package mutating func stayed() {
    laneCount += 1
  }
}
