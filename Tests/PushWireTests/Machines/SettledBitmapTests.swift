internal import Support
internal import Testing

@testable internal import PushWire

@Suite struct SettledBitmapTests {
  @Test("random marks give the same result as an array of flags", arguments: 1...20 as ClosedRange<UInt64>)
  func model(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    var map = SettledBitmap()
    var model: [Bool] = []
    var ranges: [Range<Int>] = []
    var settled = 0
    for _ in 0..<4_000 {
      if ranges.count < 300, Bool.random(using: &random) {
        let end = model.count + Int.random(in: 1...(Bool.random(using: &random) ? 3 : 200), using: &random)
        ranges.append(model.count..<end)
        map.append(to: UInt64(end))
        model += Array(repeating: false, count: end - model.count)
      } else if let index = ranges.indices.randomElement(using: &random) {
        let range = ranges.remove(at: Bool.random(using: &random) ? 0 : index)
        map.mark(UInt64(range.lowerBound), UInt64(range.upperBound))
        for place in range { model[place] = true }
        map.advance()
      }
      while settled < model.count, model[settled] { settled += 1 }
      #expect(map.settled == UInt64(settled), "seed \(seed)")
      #expect(map.sent == UInt64(model.count), "seed \(seed)")
      if let place = model.indices.suffix(3_000).randomElement(using: &random) {
        #expect(map.isSettled(UInt64(place)) == model[place], "seed \(seed)")
      }
      if Int.random(in: 0..<50, using: &random) == 0 { map.release() }
    }
    for range in ranges { map.mark(UInt64(range.lowerBound), UInt64(range.upperBound)) }
    map.advance()
    #expect(map.isEmpty)
  }
}
