/// What an earlier process took in and left without an outcome, to be taken in once more: in order, a chunk at a time, each chunk of one leftover.
///
/// Used by one task.
struct LeftoverAudience {
  private let leftovers: [Leftover]
  private var index = 0
  private var cursor: EnqueueContent.Cursor?
  private var takenCount = 0

  init(_ leftovers: [Leftover]) { self.leftovers = leftovers }

  /// The leftover that comes next, if none of it has been taken yet.
  var untouched: Leftover? { takenCount == 0 && index < leftovers.count ? leftovers[index] : nil }

  mutating func skip() {
    index += 1
    cursor = nil
    takenCount = 0
  }

  /// Puts the next notifications into the chunk, which it empties first. False when there are none.
  mutating func fill(_ chunk: AudienceChunk) -> Bool {
    chunk.removeAll()
    guard index < leftovers.count else { return false }
    let leftover = leftovers[index]
    var place = cursor ?? leftover.start
    chunk.origin = AudienceChunk.Origin(lane: leftover.lane, fate: leftover.fate, position: leftover.runStart + place.blockOffset)
    leftover.content.walk(&place) { notification in
      guard takenCount + chunk.count < leftover.count, chunk.hasRoom(for: notification) else { return false }
      unsafe chunk.append(line: notification.line, token: notification.token, headers: notification.headers, payload: notification.payload)
      return true
    }
    cursor = place
    takenCount += chunk.count
    if takenCount == leftover.count { skip() }
    return chunk.count > 0
  }
}

extension AudienceChunk {
  fileprivate func hasRoom(for notification: EnqueuedNotification) -> Bool {
    let byteCount = unsafe notification.payload.count
    return count < entryLimit && byteCount <= payloadCapacity - payloadEnd
  }
}
