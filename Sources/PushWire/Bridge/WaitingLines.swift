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
    /// Those that wait.
    var bits: [UInt64]
    var waitingCount: Int

    func isWaiting(_ offset: Int) -> Bool { bits[offset / 64] & 1 << (offset % 64) != 0 }
  }

  private struct Stretches {
    /// In the order of lines.
    var all: [Stretch] = []
    var emptyCount = 0

    /// The stretch that has the line, and its place there.
    func place(of line: UInt32) -> (index: Int, offset: Int)? {
      var (low, high) = (0, all.count)
      while low < high {
        let middle = (low + high) / 2
        if all[middle].firstLine <= line { low = middle + 1 } else { high = middle }
      }
      guard low > 0 else { return nil }
      let offset = Int(line - all[low - 1].firstLine)
      return offset < all[low - 1].count ? (low - 1, offset) : nil
    }

    mutating func add(_ stretch: Stretch) {
      let isLast = all.last.map { $0.firstLine < stretch.firstLine } ?? true
      let index = isLast ? all.count : all.firstIndex { $0.firstLine > stretch.firstLine } ?? all.count
      all.insert(stretch, at: index)
    }

    mutating func take(_ line: UInt32) -> (frame: UInt64, connection: UInt64)? {
      guard let (index, offset) = place(of: line), all[index].isWaiting(offset) else { return nil }
      all[index].bits[offset / 64] ^= 1 << (offset % 64)
      all[index].waitingCount -= 1
      let found = (all[index].firstFrame + UInt64(offset), all[index].connection)
      if all[index].waitingCount == 0 { emptyCount += 1 }
      // Half of them at a time, so that each costs little.
      if emptyCount * 2 >= all.count {
        all.removeAll { $0.waitingCount == 0 }
        emptyCount = 0
      }
      return found
    }
  }

  private var runs: [Run: Stretches] = [:]
  /// Of all runs.
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
    guard let run = runs[Run(high: line.high, low: line.low)], let (index, offset) = run.place(of: line.line) else {
      return false
    }
    return run.all[index].isWaiting(offset)
  }

  /// The frame that waits for a line's outcome, which does not wait any more.
  mutating func take(_ line: ForwardedLine) -> (frame: UInt64, connection: UInt64)? {
    guard let index = runs.index(forKey: Run(high: line.high, low: line.low)),
      let found = runs.values[index].take(line.line)
    else { return nil }
    if runs.values[index].all.isEmpty { runs.remove(at: index) }
    count -= 1
    return found
  }
}
