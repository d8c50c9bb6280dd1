internal import Support
internal import Testing

@testable internal import PushWire

@Suite("Outcomes as they are kept")
struct OutcomeEntriesTests {
  private static func random(_ random: inout SeededGenerator) -> (OutcomeEntries, [OutcomeEntries.Entry]) {
    var (entries, expected): (OutcomeEntries, [OutcomeEntries.Entry]) = (OutcomeEntries(), [])
    var line: UInt64 = 0
    for _ in 0..<Int.random(in: 0...40, using: &random) {
      switch Int.random(in: 0..<10, using: &random) {
      case 0: line = .random(in: 0 ... .max, using: &random)
      case 1: line = line.addingReportingOverflow(.random(in: 0...300, using: &random)).partialValue
      default: line = line.addingReportingOverflow(1).partialValue
      }
      let isText = Int.random(in: 0..<8, using: &random) == 0
      let count =
        isText
        ? Int.random(in: 0...OutcomeEntries.textByteCountLimit, using: &random)
        : [32, 32, 32, 1, 100].randomElement(using: &random) ?? 32
      let token = (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
      let since = Bool.random(using: &random) ? UInt64.random(in: 0 ... .max, using: &random) : nil
      let isDoubted = Bool.random(using: &random)
      unsafe token.withUnsafeBytes {
        unsafe entries.append(line: line, token: $0, goneSince: since, isDoubted: isDoubted, isText: isText)
      }
      expected.append(
        OutcomeEntries.Entry(
          line: line, token: token[...], isText: isText, isChannel: false, isDoubted: isDoubted, goneSince: since))
    }
    return (entries, expected)
  }

  private static func read(_ bytes: [UInt8]) throws(OutcomeEntries.Damage) -> [OutcomeEntries.Entry] {
    var reader = OutcomeEntries.Reader(bytes)
    var found: [OutcomeEntries.Entry] = []
    while let entry = try reader.next() { found.append(entry) }
    return found
  }

  private static func normal(_ entries: [OutcomeEntries.Entry]) -> [OutcomeEntries.Entry] {
    entries.map { entry in
      var entry = entry
      entry.token = Array(entry.token)[...]
      return entry
    }
  }

  @Test("what is written is read, also if the entries of several calls stand behind each other")
  func readBack() throws {
    for seed in 1...400 as ClosedRange<UInt64> {
      var random = SeededGenerator(seed: seed)
      let (first, second) = (Self.random(&random), Self.random(&random))
      #expect(first.0.lines == first.1.map(\.line), "seed \(seed)")
      let found = Self.normal(try Self.read(first.0.bytes + second.0.bytes))
      #expect(found == first.1 + second.1, "seed \(seed)")
    }
  }

  @Test("the usual entry takes 33 bytes")
  func small() {
    var entries = OutcomeEntries(line: 7, token: String(repeating: "ab", count: 32), goneSince: nil, isDoubted: false)
    let first = entries.bytes.count
    let token = [UInt8](repeating: 1, count: 32)
    unsafe token.withUnsafeBytes { unsafe entries.append(line: 8, token: $0) }
    #expect(entries.bytes.count - first == 33)
    #expect(first == 34)
  }

  @Test("what is no token is kept as text, as far as that goes")
  func malformed() throws {
    let text = "no token " + String(repeating: "é", count: 300)
    let entries = OutcomeEntries(line: 1, token: text, goneSince: nil, isDoubted: false)
    let entry = try #require(try Self.read(entries.bytes).first)
    #expect(entry.isText)
    #expect(Array(entry.token) == Array(text.utf8.prefix(OutcomeEntries.textByteCountLimit)))
  }

  @Test("broadcasts keep their lines and doubts, and have the channel in place of a token")
  func broadcasts() throws {
    for seed in 1...50 as ClosedRange<UInt64> {
      var random = SeededGenerator(seed: seed)
      let (entries, expected) = Self.random(&random)
      let found = try Self.read(entries.broadcast(to: "dHN0LXNyY2gtY2hubA==").bytes)
      #expect(found.map(\.line) == expected.map(\.line), "seed \(seed)")
      #expect(found.map(\.isDoubted) == expected.map(\.isDoubted), "seed \(seed)")
      #expect(found.allSatisfy { $0.isChannel })
      #expect(found.allSatisfy { Array($0.token) == Array("dHN0LXNyY2gtY2hubA==".utf8) })
    }
  }

  @Test("damaged bytes are refused or read, and never trap")
  func damaged() {
    for seed in 1...400 as ClosedRange<UInt64> {
      var random = SeededGenerator(seed: seed)
      var bytes = Self.random(&random).0.bytes
      for _ in 0..<3 where !bytes.isEmpty {
        bytes[Int.random(in: 0..<bytes.count, using: &random)] = .random(in: 0...255, using: &random)
      }
      _ = try? Self.read(Array(bytes.prefix(Int.random(in: 0...bytes.count, using: &random))))
    }
    // A number of more than 64 bits, a length behind the end, and a line behind the last one.
    for bytes in [
      [1] + [UInt8](repeating: 0xFF, count: 12), [16, 200, 1], [1] + [UInt8](repeating: 0xFF, count: 9) + [1],
    ]
      as [[UInt8]]
    {
      #expect(throws: OutcomeEntries.Damage.self) { try Self.read(bytes) }
    }
  }
}
