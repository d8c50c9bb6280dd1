package import PushWire
internal import Synchronization

/// A campaign's own rate, which all its parts share.
package final class CampaignPace: Sendable {
  private struct State {
    var sending: SendingRate
    /// What this process may use of a rate that others keep, too, and until when.
    var share: (perSecond: Double, until: Instant)?
    var use = RateUse()
  }

  private let now: @Sendable () -> Instant
  private let state: Mutex<State>
  package let perSecond: Double
  /// Entries of a chunk, so that one is no burst.
  package let entryLimit: Int

  private static let pauses = Duration.milliseconds(1) ... .milliseconds(100)

  /// - Parameters:
  ///   - perSecond: notifications, above zero.
  ///   - now: the time, which never goes back.
  package init(perSecond: Double, now: @escaping @Sendable () -> Instant) {
    (self.now, self.perSecond) = (now, perSecond)
    state = Mutex(State(sending: SendingRate(perSecond: perSecond, now: now())))
    entryLimit = min(AudienceChunk.defaultEntryLimit, SendingRate.unconnectedLimit(perSecond: perSecond))
  }

  /// Measures the rate with the machine's clock.
  package convenience init(perSecond: Double) {
    let clock = ContinuousClock()
    let began = clock.now
    self.init(perSecond: perSecond) { Instant.start + (clock.now - began) }
  }

  /// How long to wait before the next notification is sent; nil: not at all. Ask again afterwards.
  var pause: Duration? {
    let now = now()
    let next = state.withLock { state in
      if let share = state.share, share.until <= now || share.perSecond < RateLimiter.leastShare {
        state.use.wantsMore = true
        return now + Self.pauses.upperBound
      }
      let next = state.sending.nextAt(now: now)
      if next > now { state.use.wantsMore = true }
      return next
    }
    return next > now ? min(Self.pauses.upperBound, max(Self.pauses.lowerBound, next.since(now))) : nil
  }

  /// Notes that this many are sent now.
  func sends(_ count: Int) {
    let now = now()
    state.withLock { state in
      state.sending.spend(count, now: now)
      state.use.count += count
    }
  }

  /// How much of the rate this process may use for a while, because others keep it, too.
  package func use(perSecond: Double, for duration: Duration) {
    let now = now()
    state.withLock { state in
      state.share = (perSecond, now + duration)
      if perSecond >= RateLimiter.leastShare { state.sending.change(perSecond: perSecond, now: now) }
    }
  }

  /// What was used since the last call.
  package func takeUse() -> RateUse {
    state.withLock { state in
      defer { state.use = RateUse() }
      return state.use
    }
  }
}

/// An audience that is read at a campaign's own rate.
package final class PacedAudience<Source: AudienceSource>: AudienceSource {
  private let source: Source
  private let ownPace: CampaignPace

  package init(_ source: Source, _ pace: CampaignPace) { (self.source, ownPace) = (source, pace) }

  package func attach(_ signal: ReaderSignal) { source.attach(signal) }
  package func recorded(through line: UInt64) { source.recorded(through: line) }

  package var pace: CampaignPace? { ownPace }

  package func fill(_ chunk: AudienceChunk) throws(AudienceError) -> AudienceSupply {
    if let pause = ownPace.pause {
      chunk.removeAll()
      return .nothingFor(pause)
    }
    let supply = try source.fill(chunk)
    // Entries that cannot be sent do not count.
    if supply == .entries { ownPace.sends(chunk.readyCount) }
    return supply
  }

  package func fillUnpaced(_ chunk: AudienceChunk) throws(AudienceError) -> AudienceSupply {
    try source.fillUnpaced(chunk)
  }
}
