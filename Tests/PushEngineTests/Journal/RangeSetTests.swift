internal import Support
internal import Testing

@testable internal import PushEngine

@Suite struct RangeSetTests {
  @Test("random changes give the same result as an array of flags", arguments: 1...20 as ClosedRange<UInt64>)
  func model(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    var set = RangeSet()
    var flags = [Bool](repeating: false, count: 300)
    for _ in 0..<200 {
      let start = Int.random(in: 0..<290, using: &random)
      let range = start..<Int.random(in: start...min(300, start + 10), using: &random)
      set.insert(UInt64(range.lowerBound)..<UInt64(range.upperBound))
      for place in range { flags[place] = true }
      let from = Int.random(in: 0..<299, using: &random)
      let asked = from..<Int.random(in: (from + 1)...300, using: &random)
      var open: [Range<UInt64>] = []
      for place in asked where !flags[place] {
        if open.last?.upperBound == UInt64(place) {
          open[open.count - 1] = open[open.count - 1].lowerBound..<UInt64(place + 1)
        } else {
          open.append(UInt64(place)..<UInt64(place + 1))
        }
      }
      #expect(set.holes(in: UInt64(asked.lowerBound)..<UInt64(asked.upperBound)) == open, "seed \(seed)")
      #expect(set.contains(UInt64(asked.lowerBound)..<UInt64(asked.upperBound)) == open.isEmpty, "seed \(seed)")
      let isApart = zip(set.ranges, set.ranges.dropFirst()).allSatisfy { $0.upperBound < $1.lowerBound }
      #expect(isApart, "seed \(seed)")
      #expect(set.ranges.allSatisfy { !$0.isEmpty }, "seed \(seed)")
    }
  }
}
