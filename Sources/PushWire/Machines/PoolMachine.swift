/// When an app may open a connection, add a lane, or must give its gateway up.
package struct PoolMachine: Sendable {
  package struct Limits: Sendable {
    package var lanes: ClosedRange<Int>
    package var connectionsPerMinute: Double
    package var dialAttempts: Int
    package var patience: Duration

    package init(lanes: ClosedRange<Int>, connectionsPerMinute: Double, dialAttempts: Int, patience: Duration) {
      self.lanes = lanes
      self.connectionsPerMinute = connectionsPerMinute
      self.dialAttempts = dialAttempts
      self.patience = patience
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
    /// The gateway ends every connection without taking anything, even one that carries nothing.
    case unresponsive
  }

  package enum Permission: Hashable, Sendable {
    case now
    case later(Instant)
  }

  private let limits: Limits
  private var bucket: TokenBucket
  private var hasBeenOpen = false
  private var failedDials = 0
  private var trouble: (since: Instant, endings: Int)?
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

  package mutating func madeProgress() {
    trouble = nil
  }

  /// A connection has ended. Returns why the gateway must be given up, if it must.
  package mutating func ended(_ ending: Ending, now: Instant) -> String? {
    switch ending {
    case .ordinary:
      return nil
    case .fruitless:
      break
    case .refused(let reason):
      return "the gateway refused the certificate: \(reason)"
    case .unresponsive:
      return "the gateway ends every connection without taking anything, even one that carries nothing"
    case .unreachable(let reason):
      failedDials += 1
      // Over all lanes together: they try side by side, and the second to find nobody there knows no more than the first.
      if !hasBeenOpen, failedDials >= limits.dialAttempts { return reason }
    }
    let endings = (trouble?.endings ?? 0) + 1
    let since = trouble?.since ?? now
    trouble = (since, endings)
    // Both, since an app that was idle between two bad connections has not been trying all that time.
    guard now.since(since) >= limits.patience, endings >= Self.fruitlessEndings else { return nil }
    if case .unreachable(let reason) = ending { return reason }
    return "nothing got through for \(Int(limits.patience.inSeconds)) s"
  }

  /// With the longest back-off of 30 s, 8 endings are about two minutes of trying.
  private static let fruitlessEndings = 8

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
