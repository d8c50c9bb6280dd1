package import PushEngine
internal import PushTransport
internal import PushWire

/// Where a campaign's recipients come from.
package enum CampaignSource: Sendable {
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
      } catch { return .failure(error) }
    }
    try result.get()
  }

  private var file: AudienceFile? {
    switch self {
    case .file(let file), .pacedFile(let file, _): file
    case .list, .queue, .served, .nobody: nil
    }
  }

  /// How much of it has been read, of how much: bytes of a file, otherwise recipients; of nil if
  /// that is unknown.
  package func extent(submitted: Int) -> (read: Int, of: Int?) {
    switch self {
    case .list(_, let count): (min(submitted, count), count)
    case .file(let file), .pacedFile(let file, _): (file.consumedByteCount, file.byteCount)
    case .queue, .served: (submitted, nil)
    case .nobody: (0, 0)
    }
  }

  /// The same from 0 to 1; nil if it is unknown.
  func fractionRead(submitted: Int) -> Double? {
    let (read, of) = extent(submitted: submitted)
    return of.map { $0 == 0 ? 1 : min(1, Double(read) / Double($0)) }
  }

  /// The columns of a file that say headers of single notifications, as they are written.
  package var headerColumns: [String] {
    guard let header = file?.header else { return [] }
    return [header.identifierColumn, header.collapseColumn].compactMap { $0.map { header.columns[$0] } }
  }

  /// What of a file was never taken in; nil: nothing.
  ///
  /// - Parameter rest: where reading stopped.
  func unread(_ rest: UnreadAudience?) -> AudienceUnread? {
    guard let rest, let unread = file?.unread(rest), unread.byteCount != 0 else { return nil }
    return unread
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
