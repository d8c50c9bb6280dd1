/// Separate ranges of ring positions, in order: the part of a lane that is settled out of order.
///
/// The array has one element per hole: a few hundred if responses come out of order, none if they
/// come in order.
struct RangeSet: Hashable {
  private(set) var ranges: [Range<UInt64>] = []

  var isEmpty: Bool { ranges.isEmpty }
  var first: Range<UInt64>? { ranges.first }

  mutating func insert(_ range: Range<UInt64>) {
    guard !range.isEmpty else { return }
    // The first range that ends at or after the new range's start: the two may touch.
    let index = firstIndex(endingFrom: range.lowerBound)
    var merged = range
    var end = index
    while end < ranges.count, ranges[end].lowerBound <= range.upperBound {
      merged = min(merged.lowerBound, ranges[end].lowerBound)..<max(merged.upperBound, ranges[end].upperBound)
      end += 1
    }
    if end == index + 1 {
      ranges[index] = merged
    } else {
      ranges.replaceSubrange(index..<end, with: CollectionOfOne(merged))
    }
  }

  mutating func removeFirst() { ranges.removeFirst() }

  mutating func keep(where isKept: (Range<UInt64>) -> Bool) { ranges = ranges.filter(isKept) }

  /// Whether all of `range`, which is not empty, is in the set.
  func contains(_ range: Range<UInt64>) -> Bool {
    let index = firstIndex(endingFrom: range.upperBound)
    return index < ranges.count && ranges[index].lowerBound <= range.lowerBound
  }

  /// The parts of `range` that are not in the set, in order.
  func holes(in range: Range<UInt64>) -> [Range<UInt64>] {
    var found: [Range<UInt64>] = []
    var position = range.lowerBound
    var index = firstIndex(endingFrom: position)
    while index < ranges.count, ranges[index].lowerBound < range.upperBound {
      if position < ranges[index].lowerBound { found.append(position..<ranges[index].lowerBound) }
      position = max(position, ranges[index].upperBound)
      index += 1
    }
    if position < range.upperBound { found.append(position..<range.upperBound) }
    return found
  }

  private func firstIndex(endingFrom position: UInt64) -> Int {
    var low = 0
    var high = ranges.count
    // The usual case: at one of the two ends.
    if let last = ranges.last, last.upperBound < position { return high }
    while low < high {
      let middle = (low + high) / 2
      if ranges[middle].upperBound < position { low = middle + 1 } else { high = middle }
    }
    return low
  }
}
