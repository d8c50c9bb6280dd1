internal import Foundation
internal import PushWire
internal import Support
internal import Testing

@testable internal import PushEngine

/// An audience that is read again from any mark gives the same entries. Resuming depends on it.
@Suite struct ReadingAgainTests {
  /// Rows of every kind, valid and malformed, in plain text or CSV.
  private static func file(_ random: inout SeededGenerator) -> (text: [UInt8], isCSV: Bool) {
    let isCSV = random.chance(70)
    let (token, other) = (Audience.token, Audience.other)
    let limit = AudienceReader.lineByteLimit
    var text = random.chance(20) ? "\u{FEFF}" : ""
    text += random.chance(20) ? "\n \r\n" : ""
    text += isCSV ? "token,name\(random.chance(30) ? "\r" : "")\n\(token),Ann\n" : "\(token)\n"
    let hasLong = random.chance(25)
    for _ in 0..<Int.random(in: 1...80, using: &random) {
      let name = String(repeating: "n", count: Int.random(in: 0...60, using: &random))
      switch Int.random(in: 0..<(hasLong ? 21 : 18), using: &random) {
      case 0: text += "\n"
      case 1: text += " \t\r\n"
      case 2: text += "\(other),\"two\nlines \(name)\"\r\n"
      case 3: text += "\"\(other)\" , \"quotes \"\"\n\n\"\" and more\" \n"
      case 4: text += "\(token),\"never closed \(name)\n"
      case 5: text += "\(token),\"closed\" too soon\n"
      case 6: text += "not a token \(name)\n"
      case 7: text += "\(token),too,many\n"
      case 8: text += "\"\n"
      case 9: text += random.pick(["\"", ",", "\(token)"], or: "")
      case 10: text += "\(other),é\(name)\r\n"
      case 11...17:
        text += isCSV ? "\(random.chance(50) ? token : other),\(name)\n" : "\(random.chance(50) ? token : other)\n"
      case 18: text += String(repeating: "y", count: limit + Int.random(in: -2...2, using: &random)) + "\n"
      case 19:
        // A record of many lines that is just short enough, or just too long.
        let line = String(repeating: "q", count: 999) + "\n"
        let start = "\(token),\"" + String(repeating: line, count: 65)
        text +=
          start + String(repeating: "r", count: limit - start.utf8.count - 1 + Int.random(in: -2...2, using: &random))
          + "\"\n"
      default:
        text += "\(token),\"" + String(repeating: "z", count: Int.random(in: limit...3 * limit, using: &random)) + "\n"
      }
    }
    if random.chance(40) { text.removeLast() }
    return (Array(text.utf8), isCSV)
  }

  private static func rows(_ chunk: AudienceChunk) -> [Row] {
    (0..<chunk.count).map { index in
      let entry = chunk[index]
      return Row(
        line: entry.line, kind: entry.kind, text: chunk.text(of: entry),
        payload: unsafe String(decoding: chunk.payload(of: entry), as: UTF8.self))
    }
  }

  // MARK: The reader

  /// Reads `bytes` from `mark` on in random blocks and chunks. Before each block and chunk, calls
  /// `body` with the number of rows so far and a mark at which another reader could begin.
  private static func read(
    _ bytes: [UInt8], from mark: AudienceMark, _ header: AudienceHeader, _ renderer: PayloadRenderer?,
    _ random: inout SeededGenerator,
    _ body: (Int, AudienceMark?) -> Void = { _, _ in }
  ) -> [Row] {
    var reader = AudienceReader(header, renderer: renderer, firstLine: mark.line)
    let chunk = AudienceChunk(entryLimit: random.pick([1, 2, 7, 64], or: 1), payloadCapacity: 1_000)
    let largest = random.pick(bytes.count > 20_000 ? [5_000, 70_000, 1_000_000] : [1, 50, 1_000], or: 50)
    var rows: [Row] = []
    var position = Int(mark.offset)
    func look(_ reader: borrowing AudienceReader) {
      let restart = reader.restart
      body(rows.count, restart.map { AudienceMark(offset: UInt64(position - $0.carriedByteCount), line: $0.line) })
    }
    func empty() {
      rows += Self.rows(chunk)
      chunk.removeAll()
    }
    while position < bytes.count {
      let block = Array(bytes[position...].prefix(Int.random(in: 1...largest, using: &random)))
      var offset = 0
      while offset < block.count || reader.hasLines {
        look(reader)
        let used = unsafe block.withUnsafeBytes {
          unsafe reader.read(UnsafeRawBufferPointer(rebasing: $0[offset...]), into: chunk)
        }
        offset += used
        position += used
        empty()
      }
    }
    while true {
      look(reader)
      let isFinished = reader.finish(into: chunk)
      empty()
      if isFinished { return rows }
    }
  }

  @Test(
    "from any mark of a reader, another reader gives the same entries with the same lines",
    arguments: 0..<2 as Range<UInt64>)
  func restart(part: UInt64) throws {
    var (marks, gaps) = (0, 0)
    for seed in stride(from: 1 + part, through: 150, by: 2) {
      var random = SeededGenerator(seed: seed)
      let (bytes, isCSV) = Self.file(&random)
      guard let header = try AudienceHeader.detect(bytes, isWhole: true) else { continue }
      let template = isCSV && random.chance(50) ? #"{"a":"{{name}}"}"# : nil
      let renderer = try template.map {
        try PayloadTemplate(parsing: Array($0.utf8)).renderer(for: header, byteLimit: 200)
      }
      let start = AudienceMark(offset: UInt64(header.byteCount), line: header.firstLine)
      var found: [AudienceMark: Int] = [:]
      let whole = Self.read(bytes, from: start, header, renderer, &random) { count, mark in
        if let mark { found[mark] = count } else { gaps += 1 }
      }
      for (mark, count) in found.sorted(by: { $0.key.offset < $1.key.offset }).shuffled(using: &random).prefix(12) {
        marks += 1
        let again = Self.read(bytes, from: mark, header, renderer, &random)
        #expect(again == Array(whole[count...]), "seed \(seed), from \(mark)")
      }
    }
    #expect(marks > 600, "\(marks) \(gaps)")
    #expect(gaps > 15, "\(marks) \(gaps)")
  }

  // MARK: The file

  @Test(
    "a file opened again at any chunk's mark gives every entry after the last one taken in, once",
    arguments: 0..<2 as Range<UInt64>)
  func fileAgain(part: UInt64) throws {
    let path = FileManager.default.temporaryDirectory.appending(path: "carillon-again-\(UUID().uuidString)").path(
      percentEncoded: false)
    defer { try? FileManager.default.removeItem(atPath: path) }
    var restarts = 0
    var places = 0
    for seed in stride(from: 1001 + part, through: 1150, by: 2) {
      var random = SeededGenerator(seed: seed)
      var (bytes, isCSV) = Self.file(&random)
      // Sometimes more than one block.
      if random.chance(10) { while bytes.count < 600_000 { bytes += Self.file(&random).text.dropFirst(200) } }
      try Data(bytes).write(to: URL(fileURLWithPath: path))
      let template = try isCSV && random.chance(50) ? PayloadTemplate(parsing: Array(#"{"a":"{{name}}"}"#.utf8)) : nil
      func open(_ mark: AudienceMark?) throws -> AudienceFile {
        try AudienceFile(path: path, from: mark, isReadAgain: true) {
          try template?.renderer(for: $0, byteLimit: 200)
        }
      }
      func chunk() -> AudienceChunk {
        AudienceChunk(entryLimit: random.pick([1, 3, 10, 100], or: 3), payloadCapacity: 1_000)
      }

      let file = try open(nil)
      let first = chunk()
      var whole: [Row] = []
      var chunks: [(mark: AudienceMark, taken: ClosedRange<UInt64>)] = []
      while try file.fill(first) == .entries {
        if let offset = first.fileOffset {
          places += 1
          let tokens = try file.tokens(at: offset, count: first.count)
          #expect(tokens == (0..<first.count).flatMap { unsafe Array(first.token(of: first[$0])) }, "seed \(seed)")
        }
        let before = whole.last?.line ?? 0
        whole += Self.rows(first)
        chunks.append((first.mark, before...(whole.last?.line ?? before)))
      }
      #expect(
        zip(whole, whole.dropFirst()).allSatisfy { $0.line < $1.line }, "seed \(seed): the lines of entries must grow")
      for (mark, taken) in chunks.shuffled(using: &random).prefix(6) + chunks.suffix(1) {
        restarts += 1
        // A part of the chunk has been taken in, up to some line, or nothing of it.
        let line =
          random.chance(30)
          ? random.pick([taken.lowerBound, taken.upperBound], or: 0) : UInt64.random(in: taken, using: &random)
        let again = try open(mark)
        let next = chunk()
        var rows: [Row] = []
        while try again.fill(next) == .entries { rows += Self.rows(next).filter { $0.line > line } }
        #expect(rows == whole.filter { $0.line > line }, "seed \(seed), from \(mark), after line \(line)")
        #expect(again.consumedByteCount == bytes.count)
      }
    }
    #expect(restarts > 300)
    #expect(places > 30)
  }

  @Test("a list read again at any chunk's mark gives every entry after the last one taken in")
  func listAgain() throws {
    let tokens = (0..<UInt8(50)).compactMap { TokenBytes(bytes: [$0]) }
    for limit in [1, 7, 50, 64] {
      let chunk = AudienceChunk(entryLimit: limit)
      let list = TokenList(tokens)
      while try list.fill(chunk) == .entries {
        let again = TokenList(tokens, from: chunk.mark)
        let rest = AudienceChunk(entryLimit: 64)
        #expect(try again.fill(rest) == .entries)
        #expect(Self.rows(rest).map(\.line) == (chunk[0].line...50).map { $0 })
        #expect(Self.rows(rest).first?.text == Self.rows(chunk).first?.text)
      }
    }
  }
}
