internal import PushEngine
internal import PushTransport
internal import PushWire

/// Where a campaign's recipients come from.
enum CampaignSource: Sendable {
  case list(TokenList, count: Int)
  case file(AudienceFile)
  /// The closure puts recipients into the queue until there are no more, or its task is cancelled.
  case queue(RecipientQueue, fill: @Sendable () async -> Void)
  /// Nobody new: what an earlier process has taken in is sent, and nothing else.
  case nobody

  func run(_ run: CampaignRun, chunk: AudienceChunk) async throws(AudienceError) {
    switch self {
    case .list(let list, _): try await run.run(list, chunk: chunk)
    case .file(let file): try await run.run(file, chunk: chunk)
    case .nobody: try await run.run(TokenList([]), chunk: chunk)
    case .queue(let queue, let fill):
      let result = await withTaskGroup(of: Void.self) { tasks -> Result<Void, AudienceError> in
        tasks.addTask { await fill() }
        defer { tasks.cancelAll() }
        do throws(AudienceError) {
          try await run.run(queue, chunk: chunk)
          return .success(())
        } catch {
          return .failure(error)
        }
      }
      try result.get()
    }
  }

  /// How much of it has been read, from 0 to 1; nil if nobody knows.
  func fractionRead(submitted: Int) -> Double? {
    switch self {
    case .list(_, let count): count == 0 ? 1 : min(1, Double(submitted) / Double(count))
    case .file(let file):
      file.byteCount.map { $0 == 0 ? 1 : min(1, Double(file.consumedByteCount) / Double($0)) }
    case .queue: nil
    case .nobody: 1
    }
  }
}
