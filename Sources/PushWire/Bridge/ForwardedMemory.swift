/// What the bridge has forwarded for one client although the client was told that it was discarded:
/// a multiset of notifications.
///
/// An error response makes the client send everything after the named frame again. What of that was
/// forwarded before is recognised by its content and not sent twice: it has the answer of the first
/// time. Each entry counts once, so two equal notifications that were forwarded are recognised
/// twice.
///
/// Bounded by number and by age.
package struct ForwardedMemory: Sendable {
  package struct Limits: Hashable, Sendable {
    package var count = 65_536
    package var age = Duration.seconds(600)

    package init() {}
  }

  package struct Entry: Hashable, Sendable {
    package var line: ForwardedLine
    /// Nil: it has none yet.
    package var answer: FrameAnswer?

    package init(line: ForwardedLine, answer: FrameAnswer?) {
      self.line = line
      self.answer = answer
    }
  }

  private struct Stored {
    var entry: Entry
    var number: UInt64
  }

  /// What was remembered, in the order of time. Entries that were taken since stay in it until they
  /// are the oldest.
  private struct Trace {
    var digest: FrameDigest
    var number: UInt64
    var at: Instant
  }

  private let limits: Limits
  private var entries: [FrameDigest: [Stored]] = [:]
  private var waiting: [ForwardedLine: FrameDigest] = [:]
  private var traces = Queue<Trace>()
  private var nextNumber: UInt64 = 0
  package private(set) var count = 0

  package init(_ limits: Limits = Limits()) { self.limits = limits }

  package var isEmpty: Bool { count == 0 }

  /// - Returns: lines that are forgotten for it, whose answers nobody needs any more.
  @discardableResult
  package mutating func remember(_ digest: FrameDigest, _ entry: Entry, now: Instant) -> [ForwardedLine] {
    entries[digest, default: []].append(Stored(entry: entry, number: nextNumber))
    traces.append(Trace(digest: digest, number: nextNumber, at: now))
    nextNumber += 1
    count += 1
    if traces.count > 2 * (limits.count + 512) { dropTaken() }
    if entry.answer == nil { waiting[entry.line] = digest }
    return forget(now: now)
  }

  /// Takes the oldest entry of this content, if there is one.
  package mutating func take(_ digest: FrameDigest, now: Instant) -> Entry? {
    forget(now: now)
    guard var stored = entries[digest], let first = stored.first else { return nil }
    stored.removeFirst()
    entries[digest] = stored.isEmpty ? nil : stored
    count -= 1
    waiting[first.entry.line] = nil
    return first.entry
  }

  /// An entry has its answer.
  package mutating func answered(_ line: ForwardedLine, _ answer: FrameAnswer) {
    guard let digest = waiting.removeValue(forKey: line),
      let index = entries[digest]?.firstIndex(where: { $0.entry.line == line })
    else { return }
    entries[digest]?[index].entry.answer = answer
  }

  /// - Returns: lines without an answer that were forgotten.
  @discardableResult
  package mutating func forget(now: Instant) -> [ForwardedLine] {
    var forgotten: [ForwardedLine] = []
    while let oldest = traces.first, count > limits.count || now.since(oldest.at) > limits.age || !holds(oldest) {
      traces.removeFirst()
      guard var stored = entries[oldest.digest], let index = stored.firstIndex(where: { $0.number == oldest.number })
      else { continue }
      let entry = stored.remove(at: index).entry
      entries[oldest.digest] = stored.isEmpty ? nil : stored
      count -= 1
      if waiting.removeValue(forKey: entry.line) != nil { forgotten.append(entry.line) }
    }
    return forgotten
  }

  /// Entries that were taken leave traces behind older ones: as many as there may be entries.
  private mutating func dropTaken() {
    var rest = Queue<Trace>()
    while let trace = traces.first {
      if holds(trace) { rest.append(trace) }
      traces.removeFirst()
    }
    traces = rest
  }

  private func holds(_ trace: Trace) -> Bool {
    entries[trace.digest]?.contains { $0.number == trace.number } ?? false
  }
}
