/// The last frames that one connection of the bridge has taken in, for the case that the client
/// sends them again.
///
/// Frames come by the hundred thousand a second, and nearly none is ever asked for. So each leaves
/// only its digest and two bytes for its answer. What neighbours share is kept once for all of
/// them.
///
/// Bounded by number, by the pool of all memories and by age. Frames without an answer stay: the
/// session bounds those, and the age counts from the answer.
package struct BridgeTrail: Sendable {
  package struct Frame: Hashable, Sendable {
    package var digest: FrameDigest
    /// Nil: it was never forwarded.
    package var line: ForwardedLine?
    package var answer: FrameAnswer?
    /// When it was known to have its first answer, in whole seconds of the clock.
    package var answeredAt: Instant
    /// It had been forwarded for an earlier connection.
    package var isRecognised = false
  }

  /// A frame that was recognised.
  private struct Recognised {
    let number: UInt64
    /// When its first answer came. `noSecond`: it has come later, if at all.
    let second: UInt32

    static let noSecond = UInt32.max
  }

  /// Neighbours that were forwarded as neighbouring lines or not at all.
  private struct Stretch {
    /// The number of the first.
    var first: UInt64
    var count: Int
    /// The line of the first frame.
    var line: ForwardedLine?

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

  /// Every frame before `end` had its answer at the second.
  private struct Mark {
    var end: UInt64
    var second: UInt32
    /// When the first of them was noted.
    let beginning: UInt32
  }

  private let age: Duration
  /// Frames that are kept, beside those without an answer.
  private var limit: Int
  /// `limit`, or less while the pool is used up.
  private var currentLimit: Int
  private let share: (any MemoryShare)?
  // Circular, with as many places: a frame's place is its number modulo that, a power of two.
  private var digests = [FrameDigest](repeating: FrameDigest(high: 0, low: 0), count: Self.freeCapacity)
  private var answers = [UInt16](repeating: FrameAnswer.noCode, count: Self.freeCapacity)
  /// Stretches in order, without gaps. Those before the index `firstStretch` were dropped.
  private var stretches: [Stretch] = []
  private var firstStretch = 0
  private var stretchLimit = Self.freeStretchCount
  /// Marks in order. Every frame before the end of the last one has its answer.
  private var marks: [Mark] = []
  /// The number of the first frame that is kept.
  private var first: UInt64 = 0
  /// The number of the next frame.
  package private(set) var next: UInt64 = 0
  /// In order. Those before ``first`` are dropped now and then.
  private var recognised: [Recognised] = []
  var reach = ResendReach()

  /// The places that each connection has without a share of the pool.
  private static let freeCapacity = 64
  private static let freeStretchCount = 64
  private static let markLimit = 64
  private static let byteCountPerPlace = MemoryLayout<FrameDigest>.stride + MemoryLayout<UInt16>.stride

  /// - Parameters:
  ///   - limits: how many frames are kept, and how long.
  ///   - pool: of all memories; nil: it is bounded by its number only.
  package init(_ limits: ForwardedMemory.Limits, pool: (any MemoryPool)? = nil) {
    (limit, currentLimit, age) = (limits.count, limits.count, limits.age)
    share = pool?.share()
  }

  package mutating func took(_ digest: FrameDigest, line: ForwardedLine?, answer: FrameAnswer?) {
    while next > first, Int(next - first) >= currentLimit, answers[place(first)] != FrameAnswer.noCode { removeFirst() }
    if Int(next - first) == digests.count { makeRoom() }
    digests[place(next)] = digest
    answers[place(next)] = answer.map(\.code) ?? FrameAnswer.noCode
    if let last = stretches.indices.last, last >= firstStretch, stretches[last].line(of: next) == line {
      stretches[last].count += 1
    } else {
      if stretches.count - firstStretch >= stretchLimit { makeStretchRoom() }
      stretches.append(Stretch(first: next, count: 1, line: line))
    }
    next += 1
  }

  /// A frame came that was forwarded before.
  package mutating func recognised(_ digest: FrameDigest, _ known: ForwardedMemory.Entry) {
    if recognised.count >= 1024, recognised[recognised.count / 2].number < first {
      recognised.removeFirst(recognised.count / 2)
    }
    let second = known.answer == nil ? Recognised.noSecond : known.answeredAt.wholeSeconds
    recognised.append(Recognised(number: next, second: second))
    took(digest, line: known.line, answer: known.answer)
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
    mergeLast()
  }

  /// Frames that come one by one are neighbours too.
  private mutating func mergeLast() {
    guard let last = stretches.indices.last, last > firstStretch,
      stretches[last - 1].line(of: stretches[last].first) == stretches[last].line
    else { return }
    stretches[last - 1].count += stretches[last].count
    stretches.removeLast()
  }

  /// Neighbouring frames have the same answer.
  package mutating func answered(_ number: UInt64, count: Int = 1, _ answer: FrameAnswer) {
    let code = answer.code
    for number in max(number, first)..<max(number, first, min(number + UInt64(count), next)) {
      answers[place(number)] = code
    }
  }

  /// The frames from a number on that were forwarded, with their numbers, without those that are
  /// too old.
  package mutating func frames(from number: UInt64, now: Instant) -> [(number: UInt64, frame: Frame)] {
    mark(now: now)
    var found: [(number: UInt64, frame: Frame)] = []
    var mark = marks.startIndex
    var again = recognised.startIndex
    for stretch in stretches[firstStretch...] where stretch.line != nil {
      for number in max(stretch.first, number)..<max(stretch.end, number) {
        while mark < marks.endIndex, marks[mark].end <= number { mark += 1 }
        while again < recognised.endIndex, recognised[again].number < number { again += 1 }
        var frame = Frame(
          digest: digests[place(number)], line: stretch.line(of: number),
          answer: FrameAnswer(code: answers[place(number)]),
          answeredAt: mark < marks.endIndex ? Instant(wholeSeconds: marks[mark].second) : now)
        if again < recognised.endIndex, recognised[again].number == number {
          frame.isRecognised = true
          let second = recognised[again].second
          if second != Recognised.noSecond { frame.answeredAt = Instant(wholeSeconds: second) }
        }
        found.append((number, frame))
      }
    }
    return found
  }

  // MARK: Age

  /// Drops frames that are too old, and gives memory back. To be called now and then.
  ///
  /// - Parameter limit: how many frames are kept from now on.
  package mutating func sweep(limit: Int, now: Instant) {
    mark(now: now)
    (self.limit, currentLimit) = (limit, limit)
    while next > first, Int(next - first) > limit, answers[place(first)] != FrameAnswer.noCode { removeFirst() }
    shrink()
  }

  /// Notes which frames have their answers by now, and drops those that are too old.
  private mutating func mark(now: Instant) {
    let begin = max(marks.last?.end ?? 0, first)
    var end = begin
    while end < next, answers[place(end)] != FrameAnswer.noCode { end += 1 }
    let second = now.wholeSeconds
    if end > begin {
      if let last = marks.indices.last, Self.time(second, since: marks[last].beginning) * Self.markLimit < age {
        (marks[last].end, marks[last].second) = (end, second)
      } else {
        marks.append(Mark(end: end, second: second, beginning: second))
      }
    }
    let oldCount = marks.prefix { Self.time(second, since: $0.second) > age }.count
    if oldCount > 0 { while first < marks[oldCount - 1].end { removeFirst() } }
    marks.removeFirst(oldCount)
  }

  private static func time(_ second: UInt32, since earlier: UInt32) -> Duration {
    .seconds(second - min(second, earlier))
  }

  private mutating func shrink() {
    stretches.removeFirst(firstStretch)
    firstStretch = 0
    var capacity = digests.count
    while capacity > Self.freeCapacity, Int(next - first) * 4 <= capacity { capacity /= 2 }
    if capacity < digests.count { resize(capacity) }
    guard stretchLimit > Self.freeStretchCount, stretches.count * 4 <= stretchLimit else { return }
    stretchLimit = max(Self.freeStretchCount, stretches.count * 2)
    var fewer: [Stretch] = []
    fewer.reserveCapacity(stretchLimit)
    fewer += stretches
    stretches = fewer
    _ = takeShare(isNeeded: true)
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

  /// All places are taken: either there are more, or the oldest frame goes.
  private mutating func makeRoom() {
    let isNeeded = answers[place(first)] == FrameAnswer.noCode
    if takeShare(capacity: digests.count * 2, isNeeded: isNeeded) { return resize(digests.count * 2) }
    currentLimit = digests.count
    removeFirst()
  }

  /// Either there are more stretches, or the oldest half of them goes.
  private mutating func makeStretchRoom() {
    if takeShare(stretchLimit: stretchLimit * 2, isNeeded: false) {
      stretchLimit *= 2
      return
    }
    while next > first, stretches.count - firstStretch > stretchLimit / 2, answers[place(first)] != FrameAnswer.noCode {
      removeFirst()
    }
    guard stretches.count - firstStretch >= stretchLimit else { return }
    stretchLimit *= 2
    _ = takeShare(isNeeded: true)
  }

  private func takeShare(capacity: Int? = nil, stretchLimit: Int? = nil, isNeeded: Bool) -> Bool {
    let places = (capacity ?? digests.count) - Self.freeCapacity
    let stretches = (stretchLimit ?? self.stretchLimit) - Self.freeStretchCount
    let byteCount = places * Self.byteCountPerPlace + stretches * MemoryLayout<Stretch>.stride
    return share?.set(byteCount, isNeeded: isNeeded) ?? true
  }

  private mutating func resize(_ count: Int) {
    var others = [FrameDigest](repeating: FrameDigest(high: 0, low: 0), count: count)
    var answersToo = [UInt16](repeating: FrameAnswer.noCode, count: count)
    for number in first..<next {
      others[Int(truncatingIfNeeded: number) & (count - 1)] = digests[place(number)]
      answersToo[Int(truncatingIfNeeded: number) & (count - 1)] = answers[place(number)]
    }
    (digests, answers) = (others, answersToo)
    _ = takeShare(isNeeded: true)
  }
}
