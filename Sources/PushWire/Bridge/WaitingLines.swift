/// Lines that neighbouring frames of a connection were forwarded as, and that have no outcome yet.
///
/// Frames come and are answered by the hundred thousand a second, so there is one entry for a
/// stretch of neighbours, and one bit for each of them.
struct WaitingLines: Sendable {
  private struct Run: Hashable {
    let high: UInt64
    let low: UInt32
  }

  private struct Stretch {
    let firstLine: UInt32
    let count: Int
    let firstFrame: UInt64
    let connection: UInt64
    /// One bit for each line: 1 while it waits.
    var bits: [UInt64]
    var waitingCount: Int

    func isWaiting(_ offset: Int) -> Bool { bits[offset / 64] & 1 << (offset % 64) != 0 }

    /// The first that waits, from `start` on, and the first after it that does not, both at most
    /// `end`.
    func nextWaiting(from start: Int, to end: Int) -> Range<Int> {
      let first = find(from: start, to: end, isWaiting: true)
      return first..<find(from: first, to: end, isWaiting: false)
    }

    private func find(from start: Int, to end: Int, isWaiting: Bool) -> Int {
      var offset = start
      while offset < end {
        let word = (isWaiting ? bits[offset / 64] : ~bits[offset / 64]) >> (offset % 64)
        if word != 0 { return min(end, offset + word.trailingZeroBitCount) }
        offset += 64 - offset % 64
      }
      return end
    }

    mutating func take(_ range: Range<Int>) {
      var offset = range.lowerBound
      while offset < range.upperBound {
        let count = min(range.upperBound - offset, 64 - offset % 64)
        bits[offset / 64] &= ~((UInt64.max >> (64 - count)) << (offset % 64))
        offset += count
      }
      waitingCount -= range.count
    }
  }

  /// Neighbouring lines, and the frames that waited for them.
  struct Part {
    /// The offset from the first line that was asked for.
    let offset: Int
    let count: Int
    let firstFrame: UInt64
    let connection: UInt64
  }

  private struct Stretches {
    /// All stretches, in the order of their lines.
    var all: [Stretch] = []
    var emptyCount = 0

    /// How many stretches begin at the line or before.
    private func countBegun(at line: UInt32) -> Int {
      var (low, high) = (0, all.count)
      while low < high {
        let middle = (low + high) / 2
        if all[middle].firstLine <= line { low = middle + 1 } else { high = middle }
      }
      return low
    }

    func isWaiting(_ line: UInt32) -> Bool {
      guard let stretch = all[..<countBegun(at: line)].last else { return false }
      let offset = Int(line - stretch.firstLine)
      return offset < stretch.count && stretch.isWaiting(offset)
    }

    mutating func add(_ stretch: Stretch) {
      let isLast = all.last.map { $0.firstLine < stretch.firstLine } ?? true
      let index = isLast ? all.count : all.firstIndex { $0.firstLine > stretch.firstLine } ?? all.count
      all.insert(stretch, at: index)
    }

    mutating func take(_ line: UInt32, count: Int, into parts: inout [Part]) {
      var index = max(0, countBegun(at: line) - 1)
      let end = Int(line) + count
      while index < all.count, Int(all[index].firstLine) < end {
        let first = Int(all[index].firstLine)
        let (from, to) = (max(0, Int(line) - first), min(all[index].count, end - first))
        if from < to, all[index].waitingCount > 0 { take(from..<to, at: index, into: &parts, line: Int(line)) }
        index += 1
      }
      // Half of them at a time, so that each costs little.
      if emptyCount * 2 >= all.count {
        all.removeAll { $0.waitingCount == 0 }
        emptyCount = 0
      }
    }

    private mutating func take(_ range: Range<Int>, at index: Int, into parts: inout [Part], line: Int) {
      var offset = range.lowerBound
      while true {
        let found = all[index].nextWaiting(from: offset, to: range.upperBound)
        guard !found.isEmpty else { break }
        all[index].take(found)
        offset = found.upperBound
        parts.append(
          Part(
            offset: Int(all[index].firstLine) + found.lowerBound - line, count: found.count,
            firstFrame: all[index].firstFrame + UInt64(found.lowerBound), connection: all[index].connection))
      }
      if all[index].waitingCount == 0 { emptyCount += 1 }
    }
  }

  private var runs: [Run: Stretches] = [:]
  /// The lines of all runs together.
  private(set) var count = 0

  /// - Parameters:
  ///   - line: of the first frame.
  ///   - count: neighbours, of which each is the next line and the next frame.
  mutating func add(_ line: ForwardedLine, count: Int, frame: UInt64, connection: UInt64) {
    var bits = [UInt64](repeating: .max, count: (count + 63) / 64)
    if count % 64 != 0 { bits[count / 64] = 1 << (count % 64) - 1 }
    runs[Run(high: line.high, low: line.low), default: Stretches()].add(
      Stretch(
        firstLine: line.line, count: count, firstFrame: frame, connection: connection, bits: bits, waitingCount: count))
    self.count += count
  }

  func contains(_ line: ForwardedLine) -> Bool {
    runs[Run(high: line.high, low: line.low)]?.isWaiting(line.line) ?? false
  }

  /// The frames that wait for the outcomes of neighbouring lines. They do not wait any more.
  mutating func take(_ line: ForwardedLine, count: Int = 1) -> [Part] {
    guard let index = runs.index(forKey: Run(high: line.high, low: line.low)) else { return [] }
    var parts: [Part] = []
    runs.values[index].take(line.line, count: count, into: &parts)
    if runs.values[index].all.isEmpty { runs.remove(at: index) }
    for part in parts { self.count -= part.count }
    return parts
  }
}
