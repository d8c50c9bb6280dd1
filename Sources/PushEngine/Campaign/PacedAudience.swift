package import PushWire
internal import Synchronization

/// A campaign's own rate, which all its parts share.
package final class CampaignPace: Sendable {
  private let now: @Sendable () -> Instant
  private let sending: Mutex<SendingRate>
  fileprivate let perSecond: Double
  /// Entries of a chunk, so that one is no burst.
  package let entryLimit: Int

  private static let pauses = Duration.milliseconds(1) ... .milliseconds(100)

  /// - Parameters:
  ///   - perSecond: notifications, above zero.
  ///   - now: the time, which never goes back.
  package init(perSecond: Double, now: @escaping @Sendable () -> Instant) {
    (self.now, self.perSecond) = (now, perSecond)
    sending = Mutex(SendingRate(perSecond: perSecond, now: now()))
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
    let next = sending.withLock { $0.nextAt(now: now) }
    return next > now ? min(Self.pauses.upperBound, max(Self.pauses.lowerBound, next.since(now))) : nil
  }

  /// Notes that this many are sent now.
  func sends(_ count: Int) {
    let now = now()
    sending.withLock { $0.spend(count, now: now) }
  }
}

/// An audience that is read at a campaign's own rate.
package final class PacedAudience<Source: AudienceSource>: AudienceSource {
  private let source: Source
  private let pace: CampaignPace

  package init(_ source: Source, _ pace: CampaignPace) { (self.source, self.pace) = (source, pace) }

  package func attach(_ signal: ReaderSignal) { source.attach(signal) }

  package var perSecond: Double? { pace.perSecond }

  package func fill(_ chunk: AudienceChunk) throws(AudienceError) -> AudienceSupply {
    if let pause = pace.pause {
      chunk.removeAll()
      return .nothingFor(pause)
    }
    let supply = try source.fill(chunk)
    // Entries that cannot be sent do not count.
    if supply == .entries { pace.sends(chunk.readyCount) }
    return supply
  }

  package func fillUnpaced(_ chunk: AudienceChunk) throws(AudienceError) -> AudienceSupply {
    try source.fillUnpaced(chunk)
  }
}
