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

    package init(app: String, client: String, digest: FrameDigest, answer: FrameAnswer?, answeredAt: Instant) {
      self.answeredAt = answeredAt
      self.app = app
      self.client = client
      self.digest = digest
      self.answer = answer
    }
  }

  private var latest: [ForwardedLine: Frame] = [:]
  private var order: [ForwardedLine] = []

  package init() {}

  /// A frame that was forwarded as a line, or recognised as one. The last record of a line decides.
  ///
  /// - Parameters:
  ///   - comesAgain: the connection ended, and its client got no answer about this frame.
  ///   - isInJournal: the journal has the line. What it does not have was never sent.
  package mutating func read(_ frame: Frame, as line: ForwardedLine, comesAgain: Bool, isInJournal: Bool) {
    latest[line] = nil
    guard comesAgain, frame.answer != nil || isInJournal else { return }
    latest[line] = frame
    order.append(line)
  }

  /// The recovered frames in the order of the records, each line once.
  package var frames: [(line: ForwardedLine, frame: Frame)] {
    var latest = latest
    return order.compactMap { line in latest.removeValue(forKey: line).map { (line, $0) } }
  }
}
