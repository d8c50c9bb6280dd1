/// Judges whether a doubling of an app's connections was worth it.
///
/// The rate of outcomes is measured before and after, while the reader of an audience waits for
/// room all the time. How fast clients bring something would say nothing about lanes. A doubling
/// that brought less than 15 % is taken back, because each connection costs memory and processor
/// time here and at the gateway. The next attempt follows after a pause, which doubles each time
/// that it was in vain.
struct GrowthTrial: Sendable {
  enum Verdict: Hashable, Sendable {
    /// Call again, at this time at the latest, if a reader still waits then.
    case wait(until: Instant)
    /// Remove this many lanes.
    case takeBack(Int)
    /// There may be another doubling.
    case proceed
  }

  private enum Phase {
    /// Nothing is measured.
    case none
    /// Lanes were added then, and some have no connection yet.
    case opening(added: Int, since: Instant)
    /// They will have filled up at `until`. Then the rate is measured for as long as `time`.
    case filling(added: Int, until: Instant, time: Duration)
    case measuring(added: Int, since: Instant, settledCount: Int, time: Duration)
  }

  private var phase = Phase.none
  /// Outcomes per second, measured then, with the lanes that there were before the present trial.
  private var before: (rate: Double, at: Instant)?
  /// After a doubling that was taken back, the rate is measured before the next one.
  private var retryAt: Instant?
  private var pause = Self.pauses.lowerBound

  private static let worth = 1.15
  /// At least this long. Far from the gateway it is longer, in proportion to how long connections
  /// take to open, which is some round trips.
  private static let shortestMeasurement = Duration.milliseconds(150)
  /// Connections that take longer to open wait for something other than the way there.
  private static let longestOpening = Duration.milliseconds(600)
  private static let pauses = Duration.seconds(10) ... .seconds(300)
  /// A rate says nothing about one that is measured so much later.
  private static let rateAge = Duration.seconds(5)

  /// A doubling is being judged.
  var isRunning: Bool { if case .none = phase { false } else { true } }

  /// What was measured no longer counts. Lanes that were added stay, without a verdict.
  mutating func forget() {
    phase = .none
    before = nil
  }

  /// Lanes were added because of a shortage.
  ///
  /// - Parameter rate: outcomes per second during that shortage.
  mutating func began(added: Int, rate: Double, now: Instant) {
    phase = .opening(added: added, since: now)
    if let before, now.since(before.at) <= Self.rateAge { return }
    before = (rate, now)
  }

  /// Every lane has had a connection.
  mutating func opened(now: Instant) {
    guard case .opening(let added, let since) = phase else { return }
    let took = min(now.since(since), Self.longestOpening)
    // In whole nanoseconds, like instants: otherwise an end could be announced that never comes.
    let half = Duration.nanoseconds(Int64(clamping: took.wholeNanoseconds / 2))
    phase = .filling(
      added: added, until: now + max(Self.shortestMeasurement / 2, half), time: max(Self.shortestMeasurement, took))
  }

  /// Measures, and judges. To be called while a reader waits for room and nothing else keeps the
  /// app from growing.
  ///
  /// - Parameter settledCount: how many notifications have their outcome, from any start.
  mutating func judge(settledCount: Int, now: Instant) -> Verdict {
    switch phase {
    case .none:
      guard let retryAt else { return .proceed }
      guard retryAt <= now else { return .wait(until: retryAt) }
      phase = .measuring(added: 0, since: now, settledCount: settledCount, time: Self.shortestMeasurement * 2)
      return .wait(until: now + Self.shortestMeasurement * 2)
    case .opening: return .wait(until: now + Self.shortestMeasurement)
    case .filling(let added, let until, let time):
      guard until <= now else { return .wait(until: until) }
      phase = .measuring(added: added, since: now, settledCount: settledCount, time: time)
      return .wait(until: now + time)
    case .measuring(let added, let since, let old, let time):
      let elapsed = now.since(since)
      guard elapsed >= time else { return .wait(until: since + time) }
      // It was not looked at for so long that there was no shortage.
      guard elapsed <= time * 4 else {
        forget()
        return .proceed
      }
      phase = .none
      return judge(Double(settledCount - old) / elapsed.inSeconds, added: added, now: now)
    }
  }

  private mutating func judge(_ rate: Double, added: Int, now: Instant) -> Verdict {
    let isWorthless = added > 0 && before.map { rate < $0.rate * Self.worth } == true
    before = isWorthless ? nil : (rate, now)
    if isWorthless {
      retryAt = now + pause
      pause = min(pause * 2, Self.pauses.upperBound)
      return .takeBack(added)
    }
    if added > 0 { pause = Self.pauses.lowerBound }
    retryAt = nil
    return .proceed
  }
}
