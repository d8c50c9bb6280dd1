/// The notifications that an earlier process took in and left without an outcome, in order, to be
/// taken in again. A chunk holds notifications of one run.
///
/// Used by one task.
struct RecoveredAudience {
  private let recoveredRuns: [RecoveredRun]
  private var index = 0
  private var cursor: EnqueueContent.Cursor?
  private var takenCount = 0

  init(_ recoveredRuns: [RecoveredRun]) { self.recoveredRuns = recoveredRuns }

  /// The next run, if none of it has been taken yet.
  var untouched: RecoveredRun? { takenCount == 0 && index < recoveredRuns.count ? recoveredRuns[index] : nil }

  mutating func skip() {
    index += 1
    cursor = nil
    takenCount = 0
  }

  /// Puts the next notifications into the chunk, which it empties first. False when there are none.
  mutating func fill(_ chunk: AudienceChunk) -> Bool {
    chunk.removeAll()
    guard index < recoveredRuns.count else { return false }
    let recovered = recoveredRuns[index]
    var place = cursor ?? recovered.start
    chunk.append(recovered, from: &place, limit: recovered.count - takenCount)
    cursor = place
    takenCount += chunk.count
    if takenCount == recovered.count { skip() }
    return chunk.count > 0
  }
}

extension AudienceChunk {
  /// Adds up to `limit` notifications of a run to an empty chunk.
  ///
  /// - Parameter place: of the first of them in the run; then behind the last.
  func append(_ run: RecoveredRun, from place: inout EnqueueContent.Cursor, limit: Int) {
    precondition(!run.content.lacksTokens, "tokens of a recovered run that were not read")
    (origin, fate) = (Origin(lane: run.lane, position: run.runStart + place.blockOffset), run.fate)
    run.content.walk(&place) { notification in
      guard count < limit, hasRoom(for: notification) else { return false }
      unsafe append(
        line: notification.line, token: notification.token, headers: notification.headers, payload: notification.payload
      )
      return true
    }
  }

  func hasRoom(for notification: EnqueuedNotification) -> Bool {
    unsafe hasRoom(payloadByteCount: notification.payload.count)
  }
}
