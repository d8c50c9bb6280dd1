/// Neighbouring frames of one connection that are neighbouring lines of one run.
package struct ForwardedFrames: Hashable, Sendable {
  package var app: String
  /// The client's certificate.
  package var client: String
  /// How many frames of this client were forwarded before these, over all connections.
  package var position: Int64
  package var connection: UInt64
  /// The number of the first on its connection.
  package var firstFrame: UInt64
  package var run: StoredRunID
  package var firstLine: UInt32
  /// 16 bytes for each.
  package var digests: [UInt8]
  package var at: StoreInstant
  /// They had been forwarded for an earlier connection.
  package var isRecognised: Bool

  package init(
    app: String, client: String, position: Int64, connection: UInt64, firstFrame: UInt64, run: StoredRunID,
    firstLine: UInt32, digests: [UInt8], at: StoreInstant, isRecognised: Bool = false
  ) {
    (self.isRecognised, self.app, self.client, self.position) = (isRecognised, app, client, position)
    (self.connection, self.firstFrame, self.run, self.firstLine) = (connection, firstFrame, run, firstLine)
    (self.digests, self.at) = (digests, at)
  }

  package static let digestByteCount = 16
  package var count: Int { digests.count / Self.digestByteCount }

  /// Adds frames that follow at once. Returns false if they do not.
  package mutating func append(_ next: ForwardedFrames) -> Bool {
    guard connection == next.connection, run == next.run, isRecognised == next.isRecognised,
      firstFrame + UInt64(count) == next.firstFrame,
      UInt64(firstLine) + UInt64(count) == UInt64(next.firstLine), position + Int64(count) == next.position,
      count + next.count <= 8192
    else { return false }
    digests += next.digests
    return true
  }
}

package struct EndedConnection: Hashable, Sendable {
  package var connection: UInt64
  /// Frames from this one on may come again: an error response said so. Nil: none for this reason.
  package var from: UInt64?
  /// Frames from this one on may come again, unless they were recognised, because the client may
  /// not know how far it came. Nil: none for this reason.
  package var recentFrom: UInt64?
  package var at: StoreInstant
  /// The last sign of life of its process, if that was killed before the connection ended.
  package var lastSign: StoreInstant?

  package init(
    connection: UInt64, from: UInt64?, recentFrom: UInt64?, at: StoreInstant, lastSign: StoreInstant? = nil
  ) {
    (self.connection, self.from, self.recentFrom, self.at, self.lastSign) = (connection, from, recentFrom, at, lastSign)
  }
}

/// Until when the bridge listened, and for how long it had not before.
package struct BridgeLife: Hashable, Sendable {
  /// It was noted, or a frame came.
  package var lastSign: StoreInstant
  /// In milliseconds. What was remembered did not grow older in this time.
  package var pause: Int64

  package init(lastSign: StoreInstant, pause: Int64) { (self.lastSign, self.pause) = (lastSign, pause) }
}

/// Frames that were forwarded, and what is known of them.
package struct RememberedFrames: Hashable, Sendable {
  package var frames: ForwardedFrames
  /// The end of their connection. Nil: the process was killed before.
  package var end: EndedConnection?
  package var acceptedLines: [ClosedRange<UInt32>] = []
  package var notAccepted: [UInt32: StoredOutcome] = [:]
  /// The end of their run: no answer came later. Nil: it has not ended.
  package var answeredBy: StoreInstant?

  package init(frames: ForwardedFrames) { self.frames = frames }
}

/// The changes that the bridge writes at one time.
package struct BridgeChanges: Sendable {
  package var forwarded: [ForwardedFrames] = []
  package var ended: [EndedConnection] = []
  /// By app: how often clients sent again what was delivered, and when that was known last.
  package private(set) var alreadyDelivered: [String: (count: Int, last: StoreInstant)] = [:]
  /// How many frames of each client are kept.
  package var countLimit = 65_536

  package init() {}

  package var isEmpty: Bool { forwarded.isEmpty && ended.isEmpty && alreadyDelivered.isEmpty }

  package mutating func addAlreadyDelivered(_ count: Int, app: String, at last: StoreInstant) {
    alreadyDelivered[app] = ((alreadyDelivered[app]?.count ?? 0) + count, last)
  }

  package mutating func append(_ later: BridgeChanges) {
    forwarded += later.forwarded
    ended += later.ended
    for (app, found) in later.alreadyDelivered { addAlreadyDelivered(found.count, app: app, at: found.last) }
    if !later.isEmpty { countLimit = later.countLimit }
  }

  package mutating func add(_ frames: ForwardedFrames) {
    if let last = forwarded.indices.last, forwarded[last].append(frames) { return }
    forwarded.append(frames)
  }
}
