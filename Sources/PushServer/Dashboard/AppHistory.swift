internal import PushWire

/// What an app did lately, at equal distances in time: for charts.
struct AppHistory: Sendable {
  enum Span: String, CaseIterable, Sendable {
    case minutes, day

    var slotCount: Int { self == .minutes ? 120 : 288 }
    var slotDuration: Duration { self == .minutes ? RateWindow.interval : .seconds(300) }
  }

  /// An app at one time.
  struct Sample: Hashable, Sendable {
    /// Since the start: notifications that were accepted, and those with another outcome.
    var accepted = 0
    var others = 0
    /// Without an outcome.
    var pending = 0
    /// How many the gateway took how long for: see ``HistogramSeries/bucketCounts``. Empty: it took
    /// none yet.
    var durations: [Int] = []
  }

  /// Between two times.
  struct Slot: Hashable, Sendable {
    /// How many got their outcome.
    private(set) var accepted: UInt32 = 0
    private(set) var others: UInt32 = 0
    private(set) var seconds: Float = 0
    /// The seconds that the gateway took at most for half of them, and for 99 of 100; below 0: it
    /// took none.
    private(set) var half: Float = -1
    private(set) var most: Float = -1
    /// Something had no outcome, and nothing got one.
    private(set) var stood = false

    /// Nothing is known of it.
    init() {}

    init(from first: Sample, to last: Sample, in duration: Duration, _ bounds: HistogramBounds) {
      accepted = UInt32(clamping: last.accepted - first.accepted)
      others = UInt32(clamping: last.others - first.others)
      seconds = Float(duration / .seconds(1))
      stood = accepted == 0 && others == 0 && last.pending > 0
      let counts = last.durations.enumerated().map { index, count in
        max(0, count - (index < first.durations.count ? first.durations[index] : 0))
      }
      guard let half = bounds.quantile(0.5, of: counts), let most = bounds.quantile(0.99, of: counts) else { return }
      (self.half, self.most) = (Float(half), Float(most))
    }

    var acceptedPerSecond: Double { seconds > 0 ? Double(accepted) / Double(seconds) : 0 }
    var othersPerSecond: Double { seconds > 0 ? Double(others) / Double(seconds) : 0 }
  }

  private struct Series: Sendable {
    let span: Span
    var slots: [Slot] = []
    /// Where the next slot begins.
    var start: (sample: Sample, at: Instant)?

    mutating func add(_ sample: Sample, now: Instant, _ bounds: HistogramBounds) {
      guard let start else { return self.start = (sample, now) }
      let passed = now.since(start.at)
      // A look may be a little early.
      let count = Int((passed + RateWindow.interval / 2) / span.slotDuration)
      guard count > 0 else { return }
      // The process stood still: what it did is in the last of them.
      slots += repeatElement(Slot(), count: min(count, span.slotCount) - 1)
      slots.append(Slot(from: start.sample, to: sample, in: passed, bounds))
      slots.removeFirst(max(0, slots.count - span.slotCount))
      self.start = (sample, now)
    }
  }

  private let bounds: HistogramBounds
  private var minutes = Series(span: .minutes)
  private var day = Series(span: .day)
  private var last: (sample: Sample, at: Instant)?

  /// - Parameter bounds: of ``Sample/durations``.
  init(bounds: HistogramBounds) { self.bounds = bounds }

  mutating func add(_ sample: Sample, now: Instant) {
    minutes.add(sample, now: now, bounds)
    day.add(sample, now: now, bounds)
    last = (sample, now)
  }

  /// What got an outcome in these times together, and how long they are.
  func total(_ span: Span) -> (accepted: Int, others: Int, duration: Duration) {
    var total = (accepted: 0, others: 0, duration: Duration.zero)
    for slot in slots(span) {
      total.accepted += Int(slot.accepted)
      total.others += Int(slot.others)
      total.duration += .seconds(Double(slot.seconds))
    }
    return total
  }

  /// The oldest first; of a day, the last one is not over. There are fewer at the beginning.
  func slots(_ span: Span) -> [Slot] {
    guard span == .day else { return minutes.slots }
    guard let start = day.start, let last, last.at > start.at else { return day.slots }
    let present = Slot(from: start.sample, to: last.sample, in: last.at.since(start.at), bounds)
    return day.slots.suffix(span.slotCount - 1) + [present]
  }
}

extension HistogramBounds {
  /// The value that a share of what was counted does not exceed, in units of the metric; nil:
  /// nothing was counted. Values count as evenly spread within a bucket, and those above all bounds
  /// as the last bound.
  ///
  /// - Parameter counts: by bucket, the infinite one last. Not cumulative.
  func quantile(_ share: Double, of counts: [Int]) -> Double? {
    let wanted = share * Double(counts.reduce(0, +))
    guard wanted > 0 else { return nil }
    var (below, lower) = (0.0, 0.0)
    for (bound, count) in zip(ticks, counts) {
      if count > 0, below + Double(count) >= wanted {
        lower += (Double(bound) - lower) * (wanted - below) / Double(count)
        break
      }
      below += Double(count)
      lower = Double(bound)
    }
    return lower / Double(ticksPerUnit)
  }
}
