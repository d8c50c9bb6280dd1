/// What earlier processes forwarded for clients that may send it again, from the records of the
/// store in the order in which they were written.
package struct BridgeRecovery: Sendable {
  package struct Frame: Hashable, Sendable {
    package var app: String
    package var client: String
    package var digest: FrameDigest
    /// Nil while there is no answer.
    package var answer: FrameAnswer?
    /// Its answer is not younger than this.
    package var answeredAt: Instant
    package var connection: UInt64
    /// Its number on the connection.
    package var number: UInt64
    /// It had been forwarded for an earlier connection.
    package var isRecognised: Bool

    package init(
      app: String, client: String, digest: FrameDigest, answer: FrameAnswer?, answeredAt: Instant, connection: UInt64,
      number: UInt64, isRecognised: Bool
    ) {
      (self.connection, self.number, self.isRecognised) = (connection, number, isRecognised)
      (self.answeredAt, self.app, self.client, self.digest, self.answer) = (answeredAt, app, client, digest, answer)
    }
  }

  /// The end of a connection as it was written; see ``BridgeRemainder``.
  package struct End: Hashable, Sendable {
    package var from: UInt64?
    package var recentFrom: UInt64?

    package init(from: UInt64?, recentFrom: UInt64?) { (self.from, self.recentFrom) = (from, recentFrom) }

    fileprivate func comesAgain(_ frame: Frame) -> Bool {
      frame.number >= from ?? .max || !frame.isRecognised && frame.number >= recentFrom ?? .max
    }
  }

  /// How long before the last sign of life of a killed process a frame may have come to be
  /// remembered.
  package static var reach: Duration { ResendReach.duration }

  private struct Reading {
    var frame: Frame
    var line: ForwardedLine
    var end: End?
    var isInJournal: Bool
  }

  private var readings: [Reading] = []
  /// What is known of connections that were open when their process was killed. `recentFrom` is the
  /// first frame that came shortly before. `from` is the frame behind the first that is not known
  /// to have been accepted: the client may have been told that it failed.
  private var killed: [UInt64: End] = [:]

  package init() {}

  /// A frame that was forwarded as a line, or recognised as one. The last record of a line decides.
  /// Those of one connection may come in any order.
  ///
  /// - Parameters:
  ///   - end: of the frame's connection. Nil: its process was killed before, so for its client it
  ///     broke.
  ///   - isRecent: the frame came shortly before the last sign of life.
  ///   - isInJournal: the journal has the line. What it does not have was never sent.
  package mutating func read(_ frame: Frame, as line: ForwardedLine, _ end: End?, isRecent: Bool, isInJournal: Bool) {
    readings.append(Reading(frame: frame, line: line, end: end, isInJournal: isInJournal))
    guard end == nil else { return }
    var known = killed[frame.connection] ?? End(from: nil, recentFrom: nil)
    if isRecent { known.recentFrom = min(known.recentFrom ?? .max, frame.number) }
    if frame.answer != .accepted { known.from = min(known.from ?? .max, frame.number + 1) }
    killed[frame.connection] = known
  }

  /// The recovered frames in the order of the records, each line once.
  package var frames: [(line: ForwardedLine, frame: Frame, isByResponse: Bool)] {
    var latest: [ForwardedLine: (frame: Frame, isByResponse: Bool)] = [:]
    var order: [ForwardedLine] = []
    for reading in readings {
      let (frame, line) = (reading.frame, reading.line)
      latest[line] = nil
      let known = reading.end ?? killed[frame.connection] ?? End(from: nil, recentFrom: nil)
      // After a kill, what was recognised may come again as well.
      let comesAgain = reading.end == nil && frame.number >= known.recentFrom ?? .max
      guard comesAgain || known.comesAgain(frame), frame.answer != nil || reading.isInJournal else { continue }
      latest[line] = (frame, reading.end != nil && frame.number >= known.from ?? .max)
      order.append(line)
    }
    return order.compactMap { line in latest.removeValue(forKey: line).map { (line, $0.frame, $0.isByResponse) } }
  }
}

extension BridgeLedger {
  /// What an earlier process forwarded, without the client knowing of it.
  package mutating func restore(
    _ frame: BridgeRecovery.Frame, as line: ForwardedLine, isByResponse: Bool, now: Instant
  ) {
    let entry = ForwardedMemory.Entry(
      line: line, answer: frame.answer, answeredAt: frame.answeredAt,
      until: isByResponse ? now + limits.quietTime : nil)
    restore(frame.digest, entry, client: frame.client, source: isByResponse ? frame.connection : nil)
  }
}
