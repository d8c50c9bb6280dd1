/// Notifications that the bridge has forwarded for one client although an error response called
/// them discarded: a multiset.
///
/// An error response makes the client send everything after the named frame again. What of that was
/// forwarded before is recognised by its content and not sent twice: it has the answer of the first
/// time. Each entry counts once, so two equal notifications that were forwarded are recognised
/// twice.
///
/// Bounded by number, by the pool of all memories, and by age. It counts from the first answer: an
/// entry without one is still going to be sent, and stays.
///
/// What an error response called discarded comes again at once or not at all. Such an entry ends
/// ``Limits/quietTime`` after the response and its answer.
package struct ForwardedMemory: Sendable {
  package struct Limits: Hashable, Sendable {
    /// How many entries each client has.
    package var count = 65_536
    /// How long an entry is kept after its answer.
    package var age = Duration.seconds(600)
    /// How long after an error response a client may take to begin sending again.
    package var quietTime = Duration.seconds(60)
    /// The memory of all clients together.
    package var byteCount = 64 << 20

    package init() {}
  }

  package struct Entry: Hashable, Sendable {
    package var line: ForwardedLine
    /// Nil while there is no answer.
    package var answer: FrameAnswer?
    /// When the first answer was known, in whole seconds; without an answer it says nothing.
    package var answeredAt: Instant
    /// Its end if an error response called it discarded; see ``Limits/quietTime``.
    package var until: Instant?

    package init(line: ForwardedLine, answer: FrameAnswer?, answeredAt: Instant, until: Instant? = nil) {
      (self.line, self.answer, self.answeredAt, self.until) = (line, answer, answeredAt, until)
    }
  }

  private struct Slot {
    var digest: FrameDigest
    var line: ForwardedLine
    /// When the answer came.
    var second: UInt32
    /// ``Entry/until``; `noEnd`: nil.
    var until: UInt32
    /// ``FrameAnswer/code``.
    var answer: UInt16
    /// False once the entry was taken.
    var isKept: Bool

    static let noEnd = UInt32.max

    var entry: Entry {
      Entry(
        line: line, answer: FrameAnswer(code: answer), answeredAt: Instant(wholeSeconds: second),
        until: isBehindResponse ? Instant(wholeSeconds: until) : nil)
    }
    var isAnswered: Bool { answer != FrameAnswer.noCode }
    var isBehindResponse: Bool { until != Self.noEnd }
  }

  private let limits: Limits
  private let share: (any MemoryShare)?
  // Circular, in the order of time: an entry's place is its number modulo that, a power of two.
  private var slots: [Slot] = []
  private var first: UInt64 = 0
  private var next: UInt64 = 0
  /// A hash table with twice as many places: 1 + the place of a slot. Equal digests stand in the
  /// order in which they came.
  private var table: [UInt32] = []
  package private(set) var count = 0
  private var unansweredCount = 0
  /// Entries with an ``Entry/until``.
  private var behindResponseCount = 0
  /// Open connections on which such entries may come again. None ends while there is one.
  private var resending: Set<UInt64> = []
  /// None of them ends before this second.
  private var quietUntil: UInt32 = 0

  private static let leastCapacity = 16
  package static let byteCountPerPlace = MemoryLayout<Slot>.stride + 2 * MemoryLayout<UInt32>.stride

  package init(_ limits: Limits = Limits(), pool: (any MemoryPool)? = nil) {
    self.limits = limits
    share = pool?.share()
  }

  package var isEmpty: Bool { count == 0 }

  /// Whether there are entries that an error response called discarded.
  package var hasEntriesBehindResponse: Bool { behindResponseCount > 0 }

  /// - Returns: lines without an answer that are forgotten for it. Their answers are not needed any
  ///   more.
  @discardableResult
  package mutating func remember(_ digest: FrameDigest, _ entry: Entry) -> [ForwardedLine] {
    var forgotten: [ForwardedLine] = []
    while count >= limits.count { dropOldest(&forgotten) }
    makeRoom(isAnswered: entry.answer != nil, &forgotten)
    append(
      Slot(
        digest: digest, line: entry.line, second: entry.answeredAt.wholeSeconds,
        until: entry.until.map(\.wholeSeconds) ?? Slot.noEnd, answer: entry.answer?.code ?? FrameAnswer.noCode,
        isKept: true))
    return forgotten
  }

  /// Takes the oldest entry of this content, if there is one.
  package mutating func take(_ digest: FrameDigest, now: Instant) -> Entry? {
    guard let index = find(digest, where: { !isOver($0, now: now) }) else { return nil }
    let entry = slots[Int(table[index]) - 1].entry
    remove(at: index)
    return entry
  }

  /// An entry has its answer.
  package mutating func answered(_ line: ForwardedLine, _ digest: FrameDigest, _ answer: FrameAnswer, now: Instant) {
    guard let index = find(digest, where: { $0.line == line && !$0.isAnswered }) else { return }
    let place = Int(table[index]) - 1
    (slots[place].answer, slots[place].second) = (answer.code, now.wholeSeconds)
    unansweredCount -= 1
  }

  /// A connection has begun on which may come what an error response called discarded.
  package mutating func resendBegins(_ connection: UInt64) { resending.insert(connection) }

  /// - Returns: whether the connection had begun.
  @discardableResult
  package mutating func resendEnds(_ connection: UInt64) -> Bool { resending.remove(connection) != nil }

  /// What an error response called discarded may come from now on for ``Limits/quietTime``.
  package mutating func renew(now: Instant) { quietUntil = (now + limits.quietTime).wholeSeconds }

  /// The client has gone on with something else than what an error response called discarded.
  ///
  /// - Returns: lines without an answer that are forgotten.
  package mutating func dropBehindResponse() -> [ForwardedLine] {
    remove((first..<next).filter { slots[place($0)].isBehindResponse })
  }

  /// Drops what is too old, and gives memory back.
  ///
  /// - Returns: lines without an answer that are forgotten.
  @discardableResult
  package mutating func sweep(now: Instant) -> [ForwardedLine] {
    let forgotten = remove((first..<next).filter { isOver(slots[place($0)], now: now) })
    var capacity = slots.count
    while capacity > Self.leastCapacity, count * 4 <= capacity { capacity /= 2 }
    if capacity < slots.count { resize(capacity) }
    return forgotten
  }

  private mutating func remove(_ numbers: [UInt64]) -> [ForwardedLine] {
    var forgotten: [ForwardedLine] = []
    for place in numbers.map(place) where slots[place].isKept {
      if !slots[place].isAnswered { forgotten.append(slots[place].line) }
      remove(place: place)
    }
    while first < next, !slots[place(first)].isKept { first += 1 }
    return forgotten
  }

  private func isOver(_ slot: Slot, now: Instant) -> Bool {
    guard slot.isAnswered else { return false }
    let now = now.wholeSeconds
    func hasPassed(_ duration: Duration) -> Bool { .seconds(now - min(now, slot.second)) > duration }
    if hasPassed(limits.age) { return true }
    return slot.isBehindResponse && resending.isEmpty && now > max(slot.until, quietUntil)
      && hasPassed(limits.quietTime)
  }

  // MARK: Slots

  private func place(_ number: UInt64) -> Int { Int(truncatingIfNeeded: number) & (slots.count - 1) }

  /// Drops the oldest entry that has an answer; without one, the oldest entry.
  private mutating func dropOldest(_ forgotten: inout [ForwardedLine]) {
    while true {
      let slot = slots[place(first)]
      if !slot.isKept {
        first += 1
      } else if slot.isAnswered || unansweredCount == count {
        if !slot.isAnswered { forgotten.append(slot.line) }
        return removeFirst()
      } else {
        removeFirst()
        append(slot)
      }
    }
  }

  private mutating func removeFirst() {
    remove(place: place(first))
    first += 1
  }

  private mutating func append(_ slot: Slot) {
    slots[place(next)] = slot
    insert(place(next))
    next += 1
    count += 1
    if !slot.isAnswered { unansweredCount += 1 }
    if slot.isBehindResponse { behindResponseCount += 1 }
  }

  /// - Parameter isAnswered: what the room is for.
  private mutating func makeRoom(isAnswered: Bool, _ forgotten: inout [ForwardedLine]) {
    guard Int(next - first) == slots.count else { return }
    // Entries that were taken leave gaps: without them there is room.
    if count * 4 < slots.count * 3 { return resize(slots.count) }
    let capacity = max(Self.leastCapacity, slots.count * 2)
    // Nothing that has an answer could go in its place.
    let isNeeded = slots.isEmpty || !isAnswered && unansweredCount == count
    if takeShare(capacity, isNeeded: isNeeded) { return resize(capacity) }
    while Int(next - first) == slots.count {
      if slots[place(first)].isKept { dropOldest(&forgotten) } else { first += 1 }
    }
  }

  /// Without gaps, in a table of another size.
  private mutating func resize(_ capacity: Int) {
    var kept: [Slot] = []
    kept.reserveCapacity(capacity)
    for number in first..<next where slots[place(number)].isKept { kept.append(slots[place(number)]) }
    (first, next) = (0, UInt64(kept.count))
    let empty = Slot(
      digest: FrameDigest(high: 0, low: 0), line: ForwardedLine(high: 0, low: 0, line: 0), second: 0, until: 0,
      answer: 0, isKept: false)
    kept += repeatElement(empty, count: capacity - kept.count)
    slots = kept
    table = [UInt32](repeating: 0, count: capacity * 2)
    for place in 0..<Int(next) { insert(place) }
    _ = takeShare(capacity, isNeeded: true)
  }

  private func takeShare(_ capacity: Int, isNeeded: Bool) -> Bool {
    share?.set(capacity * Self.byteCountPerPlace, isNeeded: isNeeded) ?? true
  }

  // MARK: The table

  private func home(_ digest: FrameDigest) -> Int {
    let mixed = (digest.high ^ digest.low) &* 0x9E37_79B9_7F4A_7C15
    return Int(truncatingIfNeeded: mixed >> 32) & (table.count - 1)
  }

  /// The index in the table of the first slot with this digest that fits.
  private func find(_ digest: FrameDigest, where fits: (Slot) -> Bool) -> Int? {
    guard !table.isEmpty else { return nil }
    var index = home(digest)
    while table[index] != 0 {
      let slot = slots[Int(table[index]) - 1]
      if slot.digest == digest, fits(slot) { return index }
      index = (index + 1) & (table.count - 1)
    }
    return nil
  }

  private mutating func insert(_ place: Int) {
    var index = home(slots[place].digest)
    while table[index] != 0 { index = (index + 1) & (table.count - 1) }
    table[index] = UInt32(place + 1)
  }

  private mutating func remove(place: Int) {
    var index = home(slots[place].digest)
    while table[index] != UInt32(place + 1) { index = (index + 1) & (table.count - 1) }
    remove(at: index)
  }

  private mutating func remove(at index: Int) {
    let place = Int(table[index]) - 1
    slots[place].isKept = false
    count -= 1
    if !slots[place].isAnswered { unansweredCount -= 1 }
    if slots[place].isBehindResponse { behindResponseCount -= 1 }
    // Later entries of the table move into the gap, but not before their home.
    var (gap, next) = (index, (index + 1) & (table.count - 1))
    while table[next] != 0 {
      let home = home(slots[Int(table[next]) - 1].digest)
      if (next - home) & (table.count - 1) >= (next - gap) & (table.count - 1) {
        table[gap] = table[next]
        gap = next
      }
      next = (next + 1) & (table.count - 1)
    }
    table[gap] = 0
  }
}
