internal import PushEngine
internal import PushWire

/// The notifications that a queue has accepted and its reader has not read, in order.
struct QueuedNotifications {
  private struct Part {
    let notification: PreparedNotification
    var count: Int

    /// The memory that one of them takes, about.
    var byteCountOfOne: Int { notification.payload.count + 256 }
  }

  // Both from the first index on that was not read.
  private var parts: [Part] = []
  private var firstPart = 0
  private var tokens: [TokenBytes] = []
  private var firstToken = 0

  var count: Int { tokens.count - firstToken }
  /// The memory that they take, about.
  var byteCount: Int { parts[firstPart...].reduce(0) { $0 + $1.count * $1.byteCountOfOne } }

  /// Returns the memory that they take, about.
  mutating func append(_ batch: IntakeBatch, _ added: [IntakeBatch.Part]) -> Int {
    added.reduce(0) { $0 + append($1.notification, to: batch.tokens[$1.range]) }
  }

  /// Returns the memory that they take, about.
  mutating func append(_ notification: PreparedNotification, to added: some Collection<TokenBytes>) -> Int {
    tokens.append(contentsOf: added)
    if let last = parts.indices.last, last >= firstPart, parts[last].notification === notification {
      parts[last].count += added.count
    } else {
      parts.append(Part(notification: notification, count: added.count))
    }
    return added.count * parts[parts.count - 1].byteCountOfOne
  }

  /// Moves as many into a chunk as fit, as lines that follow each other.
  ///
  /// - Parameters:
  ///   - line: the first line.
  ///   - isShared: payload and expiration are the campaign's, so the chunk gets the tokens only.
  /// - Returns: how many, and their memory.
  mutating func move(
    into chunk: AudienceChunk, from line: UInt64, isShared: Bool = false
  ) -> (count: Int, byteCount: Int) {
    var (count, byteCount) = (0, 0)
    while firstPart < parts.count {
      let notification = parts[firstPart].notification
      let moved = chunk.append(
        line: line + UInt64(count), tokens: tokens[firstToken..<(firstToken + parts[firstPart].count)],
        payload: isShared ? [] : notification.payload, identifier: notification.identifier,
        collapseIdentifier: notification.collapseID, expiration: isShared ? nil : notification.expiration)
      count += moved
      byteCount += moved * parts[firstPart].byteCountOfOne
      firstToken += moved
      parts[firstPart].count -= moved
      guard parts[firstPart].count == 0 else { break }
      firstPart += 1
    }
    if firstPart == parts.count { removeAll() } else { dropRead() }
    return (count, byteCount)
  }

  mutating func removeAll() {
    parts.removeAll(keepingCapacity: parts.count <= 1024)
    tokens.removeAll(keepingCapacity: tokens.count <= 1024)
    (firstPart, firstToken) = (0, 0)
  }

  /// Frees the memory of what was read, when it is more than the rest.
  private mutating func dropRead() {
    guard firstToken >= 4096, firstToken * 2 >= tokens.count else { return }
    parts.removeFirst(firstPart)
    tokens.removeFirst(firstToken)
    (firstPart, firstToken) = (0, 0)
  }
}
