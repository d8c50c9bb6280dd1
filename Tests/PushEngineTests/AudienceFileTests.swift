internal import Foundation
internal import Testing

@testable internal import PushEngine

struct AudienceFileTests {
  private func withFile(_ contents: String, _ body: (String) throws -> Void) throws {
    let path = FileManager.default.temporaryDirectory.appending(path: "carillon-audience-\(UUID().uuidString)").path(
      percentEncoded: false)
    try contents.write(toFile: path, atomically: false, encoding: .utf8)
    defer { try? FileManager.default.removeItem(atPath: path) }
    try body(path)
  }

  @Test("a file of many blocks is read completely, and the progress ends at its size")
  func manyBlocks() throws {
    let count = 30_000
    try withFile(String(repeating: "\(Audience.token)\n", count: count)) { path in
      let file = try AudienceFile(path: path)
      let chunk = AudienceChunk()
      var lines: UInt64 = 0
      while try file.fill(chunk) == .entries {
        #expect(chunk.count <= chunk.entryLimit)
        #expect(chunk.readyCount == chunk.count)
        for index in 0..<chunk.count {
          lines += 1
          if chunk[index].line != lines { Issue.record("line \(chunk[index].line) instead of \(lines)") }
        }
      }
      #expect(lines == UInt64(count))
      #expect(file.byteCount == count * 65)
      #expect(file.consumedByteCount == count * 65)
      #expect(try file.fill(chunk) == .end)
    }
  }

  @Test("only lines that are nothing but a token are read again from their place in the file")
  func places() throws {
    func offsets(_ contents: String, entryLimit: Int, isReadAgain: Bool = true) throws -> [UInt64?] {
      var offsets: [UInt64?] = []
      try withFile(contents) { path in
        let file = try AudienceFile(path: path, isReadAgain: isReadAgain)
        let chunk = AudienceChunk(entryLimit: entryLimit)
        while try file.fill(chunk) == .entries {
          offsets.append(chunk.fileOffset)
          guard let offset = chunk.fileOffset else { continue }
          let expected = (0..<chunk.count).flatMap { unsafe Array(chunk.token(of: chunk[$0])) }
          #expect(try file.tokens(at: offset, count: chunk.count) == expected)
          // Not of what the file does not have.
          #expect(throws: AudienceError.self) { try file.tokens(at: offset, count: 100_000) }
          #expect(throws: AudienceError.self) { try file.tokens(at: offset + 1, count: 1) }
        }
      }
      return offsets
    }
    let (token, other) = (Audience.token, Audience.other)
    #expect(try offsets("\(token)\n\(other)\n\(token)\n", entryLimit: 2) == [0, 130])
    #expect(try offsets("\(token)\n\(other)\n", entryLimit: 2, isReadAgain: false) == [nil])
    #expect(try offsets("token\n\(token)\n\(other)\n", entryLimit: 2) == [6], "a column of tokens, too")
    #expect(try offsets("token,name\n\(token),Ann\n", entryLimit: 2) == [nil])
    #expect(try offsets("\(token)\n\n\(other)\n\(token)\n", entryLimit: 1) == [0, nil, 131], "a blank line")
    #expect(try offsets("\(token)\r\n\(other)\n", entryLimit: 1) == [nil, 66], "a carriage return")
    #expect(try offsets("\(token) \n\(other)\n", entryLimit: 2) == [nil], "a space")
    #expect(try offsets("\(token)\n\(other)", entryLimit: 2) == [nil], "no line end")
    #expect(try offsets("\(token)\r\n\(other)", entryLimit: 2) == [nil], "as many bytes, one of them elsewhere")
    #expect(try offsets("\(token)\n\(token.dropLast(2))\n", entryLimit: 2) == [nil], "a shorter token")
    #expect(try offsets("\(token)\nno token\n", entryLimit: 1) == [0, nil])
    // Many blocks: lines are cut by them.
    let many = try offsets(String(repeating: "\(token)\n", count: 30_000), entryLimit: 1024)
    let expected: [UInt64?] = (0..<30).map { UInt64($0) * 1024 * 65 }
    #expect(many == expected)
  }

  @Test("what was never taken in is reported in bytes from its first line on, and in estimated lines")
  func unread() throws {
    let count = 10_000
    try withFile("token\n" + String(repeating: "\(Audience.token)\n", count: count)) { path in
      let file = try AudienceFile(path: path)
      let size = 6 + count * 65
      #expect(file.unread(UnreadAudience()) == AudienceUnread(line: 2, byteCount: count * 65, fileByteCount: size))
      let chunk = AudienceChunk()
      for _ in 0..<5 { #expect(try file.fill(chunk) == .entries) }
      // In the middle of the fifth chunk.
      let line = chunk[100].line
      let left = count - (4 * chunk.entryLimit + 100)
      #expect(
        file.unread(UnreadAudience(mark: chunk.mark, line: line))
          == AudienceUnread(line: line, byteCount: left * 65, fileByteCount: size, estimatedLineCount: left))
      // Asking does not change the reading.
      #expect(try file.fill(chunk) == .entries)
      #expect(chunk[0].line == UInt64(5 * chunk.entryLimit + 2))
      #expect(file.unread(UnreadAudience(mark: chunk.mark, line: UInt64(count) + 2)).byteCount == 0)
    }
  }

  @Test("a file that cannot be opened is an error with the system's reason")
  func cannotOpen() throws {
    let missing = #expect(throws: AudienceError.self) { _ = try AudienceFile(path: "no-such-file.txt") }
    #expect(missing?.description == "The token file no-such-file.txt cannot be opened: No such file or directory.")
    let folder = #expect(throws: AudienceError.self) { _ = try AudienceFile(path: NSTemporaryDirectory()) }
    #expect(folder?.problem == .isFolder)
    try withFile("") { path in
      let empty = #expect(throws: AudienceError.self) { _ = try AudienceFile(path: path) }
      #expect(empty?.problem == .format(.empty))
    }
  }

  @Test("a file that loses lines while it is read is an error behind those that are left")
  func endsEarly() throws {
    let count = 30_000
    try withFile(String(repeating: "\(Audience.token)\n", count: count)) { path in
      let file = try AudienceFile(path: path)
      let chunk = AudienceChunk()
      #expect(try file.fill(chunk) == .entries)
      var lineCount = chunk.count
      let handle = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
      try handle.truncate(atOffset: 20_000 * 65)
      try handle.close()
      let error = #expect(throws: AudienceError.self) {
        while try file.fill(chunk) == .entries { lineCount += chunk.count }
      }
      #expect(lineCount == 20_000)
      #expect(error?.problem == .endsEarly(20_000 * 65, of: count * 65))
      #expect(
        error?.description
          == "The token file \(path) ends after 1300000 of 1950000 bytes: the rest of it is lost.")
    }
  }

  @Test("a service's file must have what it had, and may have more")
  func kept() throws {
    try withFile("\(Audience.token)\n") { path in
      for (byteCount, isWhole) in [(0, true), (64, true), (65, true), (66, false)] {
        let file = try AudienceFile(KeptAudience(path: path, byteCount: byteCount, numbersRows: false))
        let chunk = AudienceChunk()
        #expect(try file.fill(chunk) == .entries)
        let early = AudienceError(path: nil, problem: .endsEarly(65, of: byteCount))
        if isWhole {
          try file.demandWhole()
          #expect(try file.fill(chunk) == .end)
        } else {
          #expect(throws: early) { try file.demandWhole() }
          #expect(throws: early) { try file.fill(chunk) }
        }
      }
    }
  }

  @Test("a template whose column is missing stops before anything is read")
  func missingColumn() throws {
    let template = try PayloadTemplate(parsing: Array(#"{"a":"{{name}}"}"#.utf8))
    try withFile("token,id\n\(Audience.token),1\n") { path in
      #expect(throws: PayloadTemplateError.missingColumn(name: "name", existing: ["token", "id"])) {
        _ = try AudienceFile(path: path) { try template.renderer(for: $0, byteLimit: 256) }
      }
    }
  }

  @Test("a pipe that pauses gives what has arrived, then nothing yet, and then continues")
  func pipe() throws {
    let path = FileManager.default.temporaryDirectory.appending(path: "carillon-pipe-\(UUID().uuidString)").path(
      percentEncoded: false)
    #expect(unsafe mkfifo(path, 0o600) == 0)
    defer { try? FileManager.default.removeItem(atPath: path) }
    // Opened for both directions, so that neither side waits for the other to open.
    let writer = try #require(FileHandle(forUpdatingAtPath: path))
    try writer.write(contentsOf: Data("\(Audience.token)\n\(Audience.other.prefix(10))".utf8))
    let file = try AudienceFile(path: path)
    let chunk = AudienceChunk()
    #expect(try file.fill(chunk) == .entries)
    #expect(chunk.count == 1)
    #expect(file.byteCount == nil)
    #expect(try file.fill(chunk) == .nothingYet)
    try writer.write(contentsOf: Data(Audience.other.dropFirst(10).utf8))
    #expect(try file.fill(chunk) == .nothingYet, "a line without its end may continue")
    try writer.close()
    #expect(try file.fill(chunk) == .entries)
    #expect(chunk.count == 1)
    #expect(chunk.text(of: chunk[0]) == Audience.other)
    #expect(chunk[0].line == 2)
    #expect(try file.fill(chunk) == .end)
  }

  @Test(
    "lines after a quote that is never closed do not wait for the pipe's next bytes, even if they fill several chunks")
  func unclosedQuoteInPipe() throws {
    let path = FileManager.default.temporaryDirectory.appending(path: "carillon-pipe-\(UUID().uuidString)").path(
      percentEncoded: false)
    #expect(unsafe mkfifo(path, 0o600) == 0)
    defer { try? FileManager.default.removeItem(atPath: path) }
    let writer = try #require(FileHandle(forUpdatingAtPath: path))
    let lines = [String](repeating: "\(Audience.token),Zoe\n", count: 500)
    try writer.write(contentsOf: Data("token,name\n\(Audience.token),\"Ann\n\(lines.joined())".utf8))
    let file = try AudienceFile(path: path)
    let chunk = AudienceChunk(entryLimit: 200)
    #expect(try file.fill(chunk) == .nothingYet, "the quote may still be closed")
    try writer.write(contentsOf: Data(lines.joined().utf8))
    var lineNumbers: [UInt64] = []
    while try file.fill(chunk) == .entries { lineNumbers += (0..<chunk.count).map { chunk[$0].line } }
    #expect(lineNumbers == (2...1002).map(UInt64.init))
    try writer.close()
    #expect(try file.fill(chunk) == .end)
  }

  @Test("a pipe with a header and nothing else is empty")
  func emptyPipe() throws {
    let pipe = Pipe()
    try pipe.fileHandleForWriting.write(contentsOf: Data("token,name\n".utf8))
    try pipe.fileHandleForWriting.close()
    let path = "/dev/fd/\(pipe.fileHandleForReading.fileDescriptor)"
    let file = try AudienceFile(path: path)
    let error = #expect(throws: AudienceError.self) { try file.fill(AudienceChunk()) }
    #expect(error?.problem == .format(.empty))
  }

  @Test("reading a file without line ends stops: its one line is rejected, and reading ends with an error")
  func endlessLine() throws {
    let file = try AudienceFile(path: "/dev/zero")
    let chunk = AudienceChunk()
    #expect(try file.fill(chunk) == .entries)
    #expect(chunk.count == 1)
    #expect(chunk[0].kind == .overlongLine)
    #expect(chunk[0].line == 1)
    let error = #expect(throws: AudienceError.self) { while try file.fill(chunk) == .nothingFor(.zero) {} }
    #expect(error?.problem == .endlessLine(1))
    #expect(
      error?.description
        == "The token file /dev/zero cannot be read any further: line 1 has more than 1 MiB; give one token per line.")
  }

  @Test("blocks without an entry, and a chunk that fills slowly, return to the reader's caller")
  func turns() throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "carillon-audience-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let path = folder.appending(path: "tokens.txt").path
    let blank = String(repeating: "\n", count: 8 << 20)
    try (Audience.token + "\n" + blank + Audience.other + "\n").write(toFile: path, atomically: false, encoding: .utf8)
    let file = try AudienceFile(path: path)
    let chunk = AudienceChunk()
    var supplies: [AudienceSupply] = []
    var lines: [UInt64] = []
    while supplies.last != .end {
      supplies.append(try file.fill(chunk))
      lines += (0..<chunk.count).map { chunk[$0].line }
    }
    #expect(lines == [1, UInt64(2 + (8 << 20))])
    #expect(supplies.first == .entries, "\(supplies)")
    #expect(supplies.count { $0 == .nothingFor(.zero) } >= 6, "\(supplies)")
  }
}
