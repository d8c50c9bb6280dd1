/// How a connection of the bridge has ended. It decides what its client may send again.
package enum BridgeEnd: Hashable, Sendable {
  /// The client sends nothing again: it has closed its side and takes everything for accepted, or
  /// it uses command 0 and was told nothing.
  case closed
  /// An error response has named the frame before this one as refused, and the client sends
  /// everything behind it again.
  case failed(from: UInt64)
  /// Status 10: the client sends everything from this frame on again. One that did not read the
  /// response may retry what it wrote last: so much of it as had no answer, from the second frame
  /// on.
  case shutDown(from: UInt64, unanswered: UInt64)
  /// Neither side knows how far the other came. The client may retry what it wrote last.
  case broken

  /// The client was told which of its frames were discarded.
  package var isByResponse: Bool {
    switch self {
    case .failed, .shutDown: true
    case .closed, .broken: false
    }
  }
}

/// What a connection of the bridge leaves behind.
package struct BridgeRemainder: Sendable {
  package typealias Frames = [(number: UInt64, frame: BridgeTrail.Frame)]

  /// Frames from this one on may come again; nil: none for this reason.
  package var from: UInt64?
  /// Frames from this one on may come again unless they were recognised; nil: none for this reason.
  package var recentFrom: UInt64?
  /// What may come again.
  package var again: Frames = []
  /// What does not come again.
  package var others: Frames = []
}

extension BridgeTrail {
  /// Called before the frames of a read.
  package mutating func arrive(now: Instant) { reach.arrive(next, now: now) }

  /// No more frames are taken.
  package mutating func stop(now: Instant) { reach.stop(now: now) }

  /// What the connection leaves behind.
  package mutating func remainder(_ end: BridgeEnd, now: Instant) -> BridgeRemainder {
    var found = BridgeRemainder()
    switch end {
    case .closed: break
    case .failed(let from): found.from = from
    case .shutDown(let from, let unanswered):
      found.from = from
      if unanswered < from { found.recentFrom = max(unanswered, reach.first(now: now, next: next)) }
    case .broken: found.recentFrom = reach.first(now: now, next: next)
    }
    for entry in frames(from: 0, now: now) {
      let comesAgain =
        entry.number >= found.from ?? .max || !entry.frame.isRecognised && entry.number >= found.recentFrom ?? .max
      if comesAgain { found.again.append(entry) } else { found.others.append(entry) }
    }
    return found
  }
}
