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

  package init(limits: Limits, now: Instant) {
    self.limits = limits
    laneCount = limits.lanes.lowerBound
    bucket = TokenBucket(perSecond: limits.connectionsPerMinute / 60, burst: max(Double(limits.lanes.upperBound), limits.connectionsPerMinute / 4), now: now)
  }

  /// A lane wants to connect.
  package mutating func mayDial(now: Instant) -> Permission {
    bucket.take(upTo: 1, now: now) == 1 ? .now : .later(bucket.nextAt(now: now))
  }

  package mutating func opened() {
    hasBeenOpen = true
    failedDials = 0
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

  /// A producer found no room in any lane. Returns whether to add one.
  ///
  /// Every fast producer fills the lanes now and then: only when it goes on for a second is the connection what is too slow.
  package mutating func starved(now: Instant) -> Bool {
    guard laneCount < limits.lanes.upperBound else { return false }
    guard let starving, now.since(starving.last) < Self.growthInterval else {
      starving = (now, now)
      return false
    }
    guard now.since(starving.since) >= Self.growthInterval else {
      self.starving = (starving.since, now)
      return false
    }
    self.starving = (now, now)
    laneCount += 1
    return true
  }

  private static let growthInterval = Duration.seconds(1)

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
