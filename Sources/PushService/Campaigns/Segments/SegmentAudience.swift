internal import PushEngine
internal import PushStore
internal import PushWire

extension DeviceAudience {
  /// The members of a segment that have no outcome, as far as they are granted.
  ///
  /// - Parameters:
  ///   - key: of the last one that was read before; 0: none.
  ///   - devices: those with some keys; one that is there no more has no token.
  convenience init(
    of progress: SegmentProgress, after key: Int64, payloads: VariantPayloads, clock: any ServiceClock,
    devices: @escaping @Sendable ([Int64]) async throws -> [CampaignMember]
  ) {
    self.init(
      after: key,
      pages: { key, limit in
        let (keys, last) = progress.unsettled(after: key, limit: limit)
        return (keys.isEmpty ? [] : try await devices(keys), last)
      },
      pause: { try? await clock.sleep(for: .milliseconds(200)) },
      recorded: { progress.recorded(through: $0) },
      take: { page, index, chunk, isPaced in
        progress.read(
          index..<page.count, isPaced: isPaced, key: { page[$0].device.key },
          { index, fate in
            // A chunk has one fate.
            guard chunk.count == 0 || chunk.fate == fate, chunk.append(page[index], payloads) else { return false }
            chunk.fate = fate
            return true
          })
      })
    progress.attach(after: key) { [weak self] in self?.wake() }
  }
}

/// Which rows of an uploaded audience belong to a segment and may be read: its keys are their
/// lines.
struct SegmentRows: RowPermit {
  let progress: SegmentProgress
  /// The last line that was read before; 0: none.
  let line: UInt64

  func attach(wake: @escaping @Sendable () -> Void) {
    progress.attach(after: Int64(clamping: line), wake: wake)
  }

  func recorded(through line: UInt64) { progress.recorded(through: Int64(clamping: line)) }

  func read(
    _ chunk: AudienceChunk, from index: Int, isPaced: Bool, _ give: (Int, RecoveredRun.Fate) -> Bool
  ) -> Int? {
    guard !progress.isLeft, let last = progress.keys.last, chunk[index].line <= last else { return nil }
    var first = index
    while first < chunk.count, chunk[first].line <= line { first += 1 }
    return progress.read(
      first..<chunk.count, isPaced: isPaced, key: { Int64(clamping: chunk[$0].line) }, give)
  }
}
