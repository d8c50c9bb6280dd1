internal import PushStore
internal import Support
internal import Testing

@testable internal import PushService

struct MemberRangeTests {
  @Test(
    "members become segments of about a size, in order, each once; what may grow waits",
    arguments: 1...100 as ClosedRange<UInt64>)
  func segments(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    var (ranges, key): ([MemberRange], Int64) = ([], 0)
    for _ in 0..<Int.random(in: 0...40, using: &random) {
      let first = key + Int64.random(in: 1...9, using: &random)
      let count = Int.random(in: 1...10, using: &random)
      key = first + Int64(count) * 2
      ranges.append(MemberRange(keys: first...key, count: count))
    }
    let (size, isComplete) = (Int.random(in: 1...30, using: &random), Bool.random(using: &random))
    let segments = MemberRange.segments(of: ranges, size: size, isComplete: isComplete)
    let used = ranges.prefix { range in segments.last.map { range.keys.upperBound <= $0.keys.upperBound } ?? false }
    #expect(segments.reduce(0) { $0 + $1.count } == used.reduce(0) { $0 + $1.count })
    #expect(segments.first?.keys.lowerBound == used.first?.keys.lowerBound)
    #expect(zip(segments, segments.dropFirst()).allSatisfy { $0.keys.upperBound < $1.keys.lowerBound })
    #expect(segments.allSatisfy { $0.count < size + 10 })
    #expect(segments.dropLast().allSatisfy { $0.count >= size })
    if isComplete { #expect(used.count == ranges.count) } else { #expect(segments.allSatisfy { $0.count >= size }) }
    #expect(ranges.dropFirst(used.count).reduce(0) { $0 + $1.count } < size)
  }
}
