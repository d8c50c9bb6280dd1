/// The last frames that one connection of the bridge has taken in, for the case that the client
/// sends them again.
///
/// Frames come by the hundred thousand a second, and nearly none is ever asked for. So each leaves
/// only its digest and two bytes for its answer. What neighbours share is kept once for all of
/// them.
package struct BridgeTrail: Sendable {
  package struct Frame: Hashable, Sendable {
    package var digest: FrameDigest
    /// Nil: it was never forwarded.
    package var line: ForwardedLine?
    package var answer: FrameAnswer?
    /// In whole seconds of the clock.
    var second: UInt32
  }

  /// Neighbours that arrived in the same second, and were forwarded as neighbouring lines or not at
  /// all.
  private struct Stretch {
    /// The number of the first.
    var first: UInt64
    var count: Int
    /// Of the first.
    var line: ForwardedLine?
    var second: UInt32

    var end: UInt64 { first + UInt64(count) }

    func line(of number: UInt64) -> ForwardedLine? { line?.advanced(by: Int(number - first)) }

    /// Divides it. The second part begins with `number`, which is inside.
    func split(at number: UInt64) -> (Stretch, Stretch) {
      var (front, back) = (self, self)
      front.count = Int(number - first)
      (back.first, back.count, back.line) = (number, count - front.count, line(of: number))
      return (front, back)
    }
  }

  private let limit: Int
  // Circular, with as many places: a frame's place is its number modulo that, a power of two.
  private var digests = [FrameDigest](repeating: FrameDigest(high: 0, low: 0), count: 16)
  private var answers = [UInt16](repeating: Self.none, count: 16)
  /// In order, from `firstStretch` on, without gaps.
  private var stretches: [Stretch] = []
  private var firstStretch = 0
  /// The number of the first frame that is kept.
  private var first: UInt64 = 0
  /// The number of the next frame.
  package private(set) var next: UInt64 = 0

  private static let none: UInt16 = 0

  /// - Parameter limit: frames that are kept, beside those without an answer.
  package init(limit: Int) { self.limit = limit }

  package mutating func took(_ digest: FrameDigest, line: ForwardedLine?, answer: FrameAnswer?, now: Instant) {
    while next > first, Int(next - first) >= limit, answers[place(first)] != Self.none { removeFirst() }
    if Int(next - first) == digests.count { grow() }
    digests[place(next)] = digest
    answers[place(next)] = answer.map(\.code) ?? Self.none
    let second = UInt32(truncatingIfNeeded: now.nanoseconds / 1_000_000_000)
    if let last = stretches.indices.last, last >= firstStretch, stretches[last].second == second,
      stretches[last].line(of: next) == line
    {
      stretches[last].count += 1
    } else {
      stretches.append(Stretch(first: next, count: 1, line: line, second: second))
    }
    next += 1
  }

  /// Neighbouring frames were forwarded as neighbouring lines.
  ///
  /// - Parameters:
  ///   - number: of the first.
  ///   - line: of the first.
  package mutating func forwarded(_ number: UInt64, count: Int = 1, as line: ForwardedLine) {
    let (from, to) = (max(number, first), min(number + UInt64(count), next))
    guard from < to else { return }
    var index = self.index(of: from)
    if stretches[index].first < from {
      let (front, back) = stretches[index].split(at: from)
      stretches[index] = front
      index += 1
      stretches.insert(back, at: index)
    }
    while index < stretches.count, stretches[index].first < to {
      if stretches[index].end > to {
        let (front, back) = stretches[index].split(at: to)
        stretches[index] = front
        stretches.insert(back, at: index + 1)
      }
      stretches[index].line = line.advanced(by: Int(stretches[index].first - number))
      index += 1
    }
  }

  /// Neighbouring frames have the same answer.
  package mutating func answered(_ number: UInt64, count: Int = 1, _ answer: FrameAnswer) {
    let code = answer.code
    for number in max(number, first)..<max(number, first, min(number + UInt64(count), next)) {
      answers[place(number)] = code
    }
  }

  /// The frames from a number on that were forwarded, with their numbers, no older than an age.
  package func frames(from number: UInt64, age: Duration, now: Instant) -> [(number: UInt64, frame: Frame)] {
    let oldest = now.nanoseconds / 1_000_000_000
    var found: [(number: UInt64, frame: Frame)] = []
    for stretch in stretches[firstStretch...] where stretch.line != nil {
      guard .seconds(oldest - min(oldest, UInt64(stretch.second))) <= age else { continue }
      for number in max(stretch.first, number)..<max(stretch.end, number) {
        let frame = Frame(
          digest: digests[place(number)], line: stretch.line(of: number),
          answer: FrameAnswer(code: answers[place(number)]), second: stretch.second)
        found.append((number, frame))
      }
    }
    return found
  }

  // MARK: Memory

  private func place(_ number: UInt64) -> Int { Int(truncatingIfNeeded: number) & (digests.count - 1) }

  /// The stretch of a frame that is kept. Most often it is one of the last.
  private func index(of number: UInt64) -> Int {
    var index = stretches.count - 1
    while stretches[index].first > number { index -= 1 }
    return index
  }

  private mutating func removeFirst() {
    first += 1
    if stretches[firstStretch].count > 1 {
      stretches[firstStretch].line = stretches[firstStretch].line(of: first)
      stretches[firstStretch].first = first
      stretches[firstStretch].count -= 1
      return
    }
    firstStretch += 1
    guard firstStretch >= 64, firstStretch * 2 >= stretches.count else { return }
    stretches.removeFirst(firstStretch)
    firstStretch = 0
  }

  private mutating func grow() {
    let count = digests.count * 2
    var larger = [FrameDigest](repeating: FrameDigest(high: 0, low: 0), count: count)
    var answersToo = [UInt16](repeating: Self.none, count: count)
    for number in first..<next {
      larger[Int(truncatingIfNeeded: number) & (count - 1)] = digests[place(number)]
      answersToo[Int(truncatingIfNeeded: number) & (count - 1)] = answers[place(number)]
    }
    (digests, answers) = (larger, answersToo)
  }
}

extension FrameAnswer {
  /// Never 0.
  fileprivate var code: UInt16 {
    switch self {
    case .accepted: 1
    case .refused(let status): 0x100 | UInt16(status.rawValue)
    }
  }

  fileprivate init?(code: UInt16) {
    switch code {
    case 0: return nil
    case 1: self = .accepted
    default: self = .refused(GatewayStatus(rawValue: UInt8(truncatingIfNeeded: code)))
    }
  }
}
