internal import PushWire
internal import Support
internal import Testing

@Suite("Who waits for what the bridge has forwarded")
struct BridgeLedgerTests {
  private static func line(_ run: Int, _ line: Int) -> ForwardedLine {
    ForwardedLine(high: UInt64(run), low: 7, line: UInt32(line))
  }

  @Test("each frame gets its answer once, whatever the order and however they were handed over", arguments: 0..<200)
  func answers(seed: Int) {
    var random = SeededGenerator(seed: UInt64(seed))
    var ledger = BridgeLedger()
    var model: [ForwardedLine: (frame: UInt64, connection: UInt64)] = [:]
    var nextLine = [1, 1, 1]
    var nextFrame: [UInt64] = [0, 0]
    for _ in 0..<200 {
      if random.chance(40) {
        let (run, connection) = (Int.random(in: 0..<3, using: &random), Int.random(in: 0..<2, using: &random))
        let count = Int.random(in: 1...150, using: &random)
        let first = Self.line(run, nextLine[run])
        ledger.forwarded(first, count: count, frame: nextFrame[connection], connection: UInt64(connection))
        for offset in 0..<count {
          let line = Self.line(run, nextLine[run] + offset)
          model[line] = (nextFrame[connection] + UInt64(offset), UInt64(connection))
        }
        nextLine[run] += count + Int.random(in: 0...2, using: &random)
        // A frame that was refused here has no line.
        nextFrame[connection] += UInt64(count + Int.random(in: 0...2, using: &random))
      } else {
        let run = Int.random(in: 0..<3, using: &random)
        if random.chance(50) {
          answerTogether(Self.line(run, Int.random(in: 0...nextLine[run], using: &random)), &ledger, &model, &random)
          continue
        }
        for number in 0..<Int.random(in: 1...100, using: &random) {
          let line = Self.line(run, max(0, random.chance(50) ? number : nextLine[run] - number))
          let expected = model.removeValue(forKey: line)
          let found = ledger.answered(line, count: 1, .accepted, now: .start).first
          #expect(found?.frame == expected?.frame, "seed \(seed)")
          #expect(found?.connection == expected?.connection, "seed \(seed)")
        }
      }
      #expect(ledger.waitingCount == model.count, "seed \(seed)")
    }
    for (line, expected) in model {
      #expect(ledger.answered(line, count: 1, .accepted, now: .start).first?.frame == expected.frame)
    }
    #expect(ledger.waitingCount == 0)
  }

  /// Neighbouring lines have the same outcome, whether somebody waits for each of them or not.
  private func answerTogether(
    _ line: ForwardedLine, _ ledger: inout BridgeLedger,
    _ model: inout [ForwardedLine: (frame: UInt64, connection: UInt64)], _ random: inout SeededGenerator
  ) {
    let count = Int.random(in: 1...400, using: &random)
    var expected: [UInt64] = []
    for offset in 0..<count {
      guard let entry = model.removeValue(forKey: line.advanced(by: offset)) else { continue }
      expected.append(entry.connection << 32 | entry.frame)
    }
    let found = ledger.answered(line, count: count, .accepted, now: .start).flatMap { delivery in
      (0..<delivery.count).map { delivery.connection << 32 | (delivery.frame + UInt64($0)) }
    }
    #expect(found == expected)
  }
}
