internal import PushEngine
internal import PushTransport
internal import PushWire

/// Where a campaign's recipients come from.
enum CampaignSource: Sendable {
  case list(TokenList, count: Int)
  case file(AudienceFile)
  /// The closure puts recipients into the queue until there are no more, or its task is cancelled.
  case queue(RecipientQueue, fill: @Sendable () async -> Void)
  /// A service's, and what feeds it.
  case served(any AudienceSource, feed: (@Sendable () async -> Void)?)
  /// A file that is read at a rate, through a source around it.
  case pacedFile(AudienceFile, any AudienceSource)
  /// No new recipients: only what an earlier process has read is sent.
  case nobody

  func run(_ run: CampaignRun, chunk: AudienceChunk) async throws(AudienceError) {
    switch self {
    case .list(let list, _): try await run.run(list, chunk: chunk)
    case .file(let file): try await run.run(file, chunk: chunk)
    case .pacedFile(_, let source): try await run.run(source, chunk: chunk)
    case .nobody: try await run.run(TokenList([]), chunk: chunk)
    case .served(let source, nil): try await run.run(source, chunk: chunk)
    case .served(let source, let feed?): try await Self.run(run, source, chunk: chunk, feed)
    case .queue(let queue, let fill): try await Self.run(run, queue, chunk: chunk, fill)
    }
  }

  /// Reads a source that `feed` puts things into meanwhile.
  private static func run(
    _ run: CampaignRun, _ source: any AudienceSource, chunk: AudienceChunk, _ feed: @escaping @Sendable () async -> Void
  ) async throws(AudienceError) {
    let result = await withTaskGroup(of: Void.self) { tasks -> Result<Void, AudienceError> in
      tasks.addTask { await feed() }
      defer { tasks.cancelAll() }
      do throws(AudienceError) {
        try await run.run(source, chunk: chunk)
        return .success(())
      } catch {
        return .failure(error)
      }
    }
    try result.get()
  }

  /// How much of it has been read, from 0 to 1; nil if that is unknown.
  func fractionRead(submitted: Int) -> Double? {
    switch self {
    case .list(_, let count): count == 0 ? 1 : min(1, Double(submitted) / Double(count))
    case .file(let file), .pacedFile(let file, _):
      file.byteCount.map { $0 == 0 ? 1 : min(1, Double(file.consumedByteCount) / Double($0)) }
    case .queue, .served: nil
    case .nobody: 1
    }
  }

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
