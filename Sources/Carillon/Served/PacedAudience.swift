internal import PushEngine
internal import PushTransport
internal import PushWire
internal import Synchronization

/// An audience that is read at a campaign's own rate.
final class PacedAudience<Source: AudienceSource>: AudienceSource {
  private let source: Source
  private let perSecond: Double
  private let clock = ContinuousClock()
  private let began: ContinuousClock.Instant
  private let state: Mutex<State>

  private struct State {
    var bucket: TokenBucket
    /// Entries that were read ahead of the rate.
    var debt = 0
  }

  init(_ source: Source, perSecond: Double) {
    self.source = source
    self.perSecond = perSecond
    began = clock.now
    // A burst of 20 ms keeps the sending even and the wake-ups few.
    state = Mutex(State(bucket: TokenBucket(perSecond: perSecond, burst: max(1, perSecond / 50), now: .start)))
  }

  /// Entries of a chunk, so that one is no burst.
  static func entryLimit(perSecond: Double) -> Int {
    min(AudienceChunk.defaultEntryLimit, max(1, Int(perSecond / 20)))
  }

  func attach(_ signal: ReaderSignal) { source.attach(signal) }

  func fill(_ chunk: AudienceChunk) throws(AudienceError) -> AudienceSupply {
    let now = Instant.start + (clock.now - began)
    let pause: Duration? = state.withLock { state in
      state.debt -= state.bucket.take(upTo: state.debt, now: now)
      guard state.debt > 0 else { return nil }
      let missing = Duration.seconds(Double(state.debt - 1) / perSecond)
      return min(.milliseconds(100), max(.milliseconds(1), state.bucket.nextAt(now: now).since(now) + missing))
    }
    if let pause {
      chunk.removeAll()
      return .nothingFor(pause)
    }
    let supply = try source.fill(chunk)
    if supply == .entries { state.withLock { $0.debt += chunk.count } }
    return supply
  }
}

extension CampaignSource {
  /// The same recipients at a rate.
  func paced(perSecond: Double) -> CampaignSource {
    func paced(_ source: some AudienceSource) -> any AudienceSource { PacedAudience(source, perSecond: perSecond) }
    switch self {
    case .list(let list, _): return .served(paced(list), feed: nil)
    case .file(let file): return .pacedFile(file, paced(file), perSecond: perSecond)
    case .queue(let queue, let fill): return .served(paced(queue), feed: fill)
    case .served(let source, let feed): return .served(paced(source), feed: feed)
    case .pacedFile, .nobody: return self
    }
  }
}
