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
    devices: @escaping @Sendable ([Int64]) async throws -> [AudienceDevice]
  ) {
    self.init(
      after: key,
      pages: { key, limit in
        let (keys, last) = progress.unsettled(after: key, limit: limit)
        return (keys.isEmpty ? [] : try await devices(keys), last)
      },
      pause: { try? await clock.sleep(for: .milliseconds(200)) },
      take: { page, index, chunk, isPaced in
        progress.read(page, from: index, isPaced: isPaced) { device, fate in
          // A chunk has one fate.
          guard chunk.count == 0 || chunk.fate == fate, chunk.append(device, payloads) else { return false }
          chunk.fate = fate
          return true
        }
      })
    progress.attach(after: key) { [weak self] in self?.wake() }
  }
}
