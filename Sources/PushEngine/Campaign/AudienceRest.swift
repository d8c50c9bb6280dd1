package import PushWire

extension AudienceSource {
  /// Reads the audience to its end and settles each entry: nothing of it is sent.
  ///
  /// - Parameters:
  ///   - line: Entries up to this line are settled already; 0: none.
  ///   - signal: The one that the source was attached to.
  ///   - outcome: Of those that could have been sent. The others get their own.
  ///   - goesOn: Asked before each chunk.
  /// - Returns: whether it has reached the end.
  package func settleRest(
    _ chunk: AudienceChunk, behind line: UInt64, signal: ReaderSignal, as outcome: Outcome,
    while goesOn: () -> Bool, _ settle: (_ line: UInt64, _ token: String, _ outcome: Outcome) -> Void
  ) async throws(AudienceError) -> Bool {
    while goesOn() {
      switch try fillUnpaced(chunk) {
      case .end: return true
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
    return false
  }
}
