/// The last frames that one connection of the bridge has taken in, for the case that the client
/// sends them again.
package struct BridgeTrail: Sendable {
  package struct Frame: Hashable, Sendable {
    package var digest: FrameDigest
    /// Nil: it was never forwarded.
    package var line: ForwardedLine?
    package var answer: FrameAnswer?
    /// In whole seconds of the clock.
    var second: UInt32
  }

  private let limit: Int
  private var frames = Queue<Frame>()
  /// The number of the first frame that is kept.
  private var first: UInt64 = 0

  /// - Parameter limit: frames that are kept, beside those without an answer.
  package init(limit: Int) { self.limit = limit }

  /// The number of the next frame.
  package var next: UInt64 { first + UInt64(frames.count) }

  package mutating func took(_ digest: FrameDigest, line: ForwardedLine?, answer: FrameAnswer?, now: Instant) {
    frames.append(
      Frame(
        digest: digest, line: line, answer: answer, second: UInt32(truncatingIfNeeded: now.nanoseconds / 1_000_000_000))
    )
    while frames.count > limit, let oldest = frames.first, oldest.answer != nil {
      frames.removeFirst()
      first += 1
    }
  }

  package mutating func forwarded(_ number: UInt64, as line: ForwardedLine) {
    change(number) { $0.line = line }
  }

  package mutating func answered(_ number: UInt64, _ answer: FrameAnswer) {
    change(number) { $0.answer = answer }
  }

  /// The frames from a number on that were forwarded, with their numbers, no older than an age.
  package func frames(from number: UInt64, age: Duration, now: Instant) -> [(number: UInt64, frame: Frame)] {
    let oldest = now.nanoseconds / 1_000_000_000
    var found: [(number: UInt64, frame: Frame)] = []
    for offset in 0..<frames.count where first + UInt64(offset) >= number {
      let frame = frames[offset]
      guard frame.line != nil, .seconds(oldest - min(oldest, UInt64(frame.second))) <= age else { continue }
      found.append((first + UInt64(offset), frame))
    }
    return found
  }

  private mutating func change(_ number: UInt64, _ change: (inout Frame) -> Void) {
    guard number >= first, number < next else { return }
    frames.update(at: Int(number - first), change)
  }
}
