package import PushWire

extension AudienceSource {
  /// Reads the audience to its end and settles each entry: nothing of it is sent.
  ///
  /// - Parameters:
  ///   - line: Entries up to this line are settled already; 0: none.
  ///   - signal: The one that the source was attached to.
  ///   - outcome: Of those that could have been sent. The others get their own.
  package func settleRest(
    _ chunk: AudienceChunk, behind line: UInt64, signal: ReaderSignal, as outcome: Outcome,
    _ settle: (_ line: UInt64, _ token: String, _ outcome: Outcome) -> Void
  ) async throws(AudienceError) {
    while true {
      switch try fillUnpaced(chunk) {
      case .end: return
      case .nothingYet, .nothingFor: break
      case .waiting: await signal.wait()
      case .entries:
        for index in 0..<chunk.count where chunk[index].line > line {
          let entry = chunk[index]
          settle(entry.line, chunk.text(of: entry), entry.kind.outcome ?? outcome)
        }
      }
      // A large audience leaves the thread to others between chunks.
      await Task.yield()
    }
  }
}
