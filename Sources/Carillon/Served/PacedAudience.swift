internal import PushEngine
internal import PushTransport
internal import PushWire
internal import Synchronization

/// A campaign's own rate, which all its parts share.
package final class CampaignPace: Sendable {
  private let clock = ContinuousClock()
  private let began: ContinuousClock.Instant
  private let bucket: Mutex<TokenBucket>
  /// Entries of a chunk, so that one is no burst.
  let entryLimit: Int

  private static let pauses = Duration.milliseconds(1) ... .milliseconds(100)

  /// - Parameter perSecond: notifications, above zero.
  package init(perSecond: Double) {
    began = clock.now
    bucket = Mutex(.sending(perSecond: perSecond, now: .start))
    entryLimit = min(AudienceChunk.defaultEntryLimit, max(1, Int(perSecond / 20)))
  }

  private var now: Instant { Instant.start + (clock.now - began) }

  /// How long to wait before the next notification is sent; nil: not at all. Ask again afterwards.
  var pause: Duration? {
    let now = now
    let next = bucket.withLock { $0.nextAt(now: now) }
    return next > now ? min(Self.pauses.upperBound, max(Self.pauses.lowerBound, next.since(now))) : nil
  }

  /// So many are sent now.
  func sends(_ count: Int) {
    let now = now
    bucket.withLock { $0.spend(count, now: now) }
  }
}

/// An audience that is read at a campaign's own rate.
final class PacedAudience<Source: AudienceSource>: AudienceSource {
  private let source: Source
  private let pace: CampaignPace

  init(_ source: Source, _ pace: CampaignPace) {
    self.source = source
    self.pace = pace
  }

  func attach(_ signal: ReaderSignal) { source.attach(signal) }

  func fill(_ chunk: AudienceChunk) throws(AudienceError) -> AudienceSupply {
    if let pause = pace.pause {
      chunk.removeAll()
      return .nothingFor(pause)
    }
    let supply = try source.fill(chunk)
    // What cannot be sent takes nothing of the rate.
    if supply == .entries { pace.sends(chunk.readyCount) }
    return supply
  }
}

extension CampaignSource {
  /// The same recipients at a rate.
  func paced(_ pace: CampaignPace) -> CampaignSource {
    func paced(_ source: some AudienceSource) -> any AudienceSource { PacedAudience(source, pace) }
    switch self {
    case .list(let list, _): return .served(paced(list), feed: nil)
    case .file(let file): return .pacedFile(file, paced(file))
    case .queue(let queue, let fill): return .served(paced(queue), feed: fill)
    case .served(let source, let feed): return .served(paced(source), feed: feed)
    case .pacedFile, .nobody: return self
    }
  }
}
