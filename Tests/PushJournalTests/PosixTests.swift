internal import Foundation
internal import Glibc
internal import PushJournal
internal import Support
internal import Synchronization
internal import Testing

/// A directory that is removed with the test.
private final class TemporaryDirectory {
  let path: String

  init() throws {
    let url = FileManager.default.temporaryDirectory.appending(path: "carillon-journal-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    path = url.path(percentEncoded: false)
  }

  deinit { try? FileManager.default.removeItem(atPath: path) }

  var segments: [String] {
    ((try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []).filter { $0.hasSuffix(".lz4") }.sorted()
  }
}

private func run(_ command: String, _ arguments: [String]) throws -> (status: Int32, output: Data) {
  let process = Process()
  process.executableURL = URL(filePath: "/usr/bin/env")
  process.arguments = [command] + arguments
  let pipe = Pipe()
  process.standardOutput = pipe
  process.standardError = FileHandle.nullDevice
  try process.run()
  let output = try pipe.fileHandleForReading.readToEnd() ?? Data()
  process.waitUntilExit()
  return (process.terminationStatus, output)
}

private func open(
  _ path: String, _ options: JournalOptions = JournalOptions()
) throws -> (journal: Journal, recovery: JournalRecovery, records: [TestRecord]) {
  var records: [TestRecord] = []
  let (journal, recovery) = try Journal.open(directory: path, options: options) { position, kind, bytes in
    records.append(
      TestRecord(position: position.rawValue, kind: kind, bytes: unsafe bytes.withUnsafeBytes { unsafe Array($0) }))
  }
  return (journal, recovery, records)
}

private struct Unexpected: Error { let what: String }

private func limitFileSize(_ byteCount: rlim_t) {
  var limit = rlimit(rlim_cur: byteCount, rlim_max: rlim_t.max)
  signal(SIGXFSZ, SIG_IGN)
  unsafe setrlimit(__rlimit_resource_t(1), &limit)
}

/// Appends until the disk is full, then checks what is left. Throws if something is wrong.
private func fillDisk() async throws {
  let directory = try TemporaryDirectory()
  limitFileSize(30_000)
  var options = JournalOptions()
  options.sync = .always
  let journal = try open(directory.path, options).journal
  var acknowledged = 0
  var appended: [TestRecord] = []
  var failure: JournalError?
  while failure == nil, appended.count < 1000 {
    do throws(JournalError) {
      let record = TestRecord.numbered(UInt64(appended.count) + 1, byteCount: 1000)
      let position = try await journal.appendWaiting(record)
      appended.append(record)
      try await journal.durable(through: position)
      acknowledged = appended.count
    } catch {
      failure = error
    }
  }
  guard case .failed(let cause)? = failure, cause.code == EFBIG, cause.operation == .write else {
    throw Unexpected(what: "\(String(describing: failure))")
  }
  #expect(throws: JournalError.failed(cause)) { _ = try journal.append(kind: 1, bytes: [1]) }
  await #expect(throws: JournalError.failed(cause)) { try await journal.close() }
  limitFileSize(rlim_t.max)
  let (again, recovery, records) = try open(directory.path, options)
  guard records.count >= acknowledged, acknowledged > 20, records == Array(appended.prefix(records.count)) else {
    throw Unexpected(what: "\(records.count)")
  }
  guard recovery.tornTail != nil, recovery.damage.isEmpty else { throw Unexpected(what: "\(recovery)") }
  try await again.close()
}

/// Appends, writes a byte to a file for each acknowledged record, and is killed meanwhile.
private func writeUntilKilled(_ path: String, sync: JournalSync, after microseconds: UInt32) async throws {
  var options = JournalOptions()
  options.sync = sync
  options.segmentByteCount = 20_000
  options.blockByteCount = 2048
  let journal = try open(path, options).journal
  let file = unsafe Glibc.open(path + "/acknowledged", O_WRONLY | O_CREAT | O_APPEND, 0o600)
  Thread.detachNewThread {
    usleep(microseconds)
    kill(getpid(), SIGKILL)
  }
  var number: UInt64 = 0
  while true {
    var last = JournalPosition.first
    let before = number
    for _ in 0..<Int.random(in: 1...40) {
      number += 1
      last = try await journal.appendWaiting(.numbered(number, byteCount: 100))
    }
    try await journal.durable(through: last)
    let marks = Array(repeating: UInt8(ascii: "x"), count: Int(number - before))
    _ = unsafe write(file, marks, marks.count)
  }
}

@Suite("A journal on a real disk", .timeLimit(.minutes(20)))
struct PosixTests {
  @Test(
    "records are recovered after closing, and after ending without closing",
    arguments: [JournalSync.always, .interval(.milliseconds(2)), .never])
  func roundTrip(sync: JournalSync) async throws {
    let directory = try TemporaryDirectory()
    var options = JournalOptions()
    options.sync = sync
    options.segmentByteCount = 20_000
    options.blockByteCount = 4096
    var expected: [TestRecord] = []
    for life in 0..<3 {
      let (journal, recovery, records) = try open(directory.path, options)
      #expect(records == expected)
      #expect(recovery.tornTail == nil)
      #expect(recovery.isClosed == (life > 0))
      for _ in 0..<1000 {
        let record = TestRecord.numbered(UInt64(expected.count) + 1, byteCount: expected.count % 150)
        let position = try await journal.appendWaiting(record)
        #expect(position.rawValue == record.position)
        expected.append(record)
        if expected.count % 100 == 0 { try await journal.durable(through: position) }
      }
      #expect(journal.durablePosition.rawValue >= UInt64(expected.count))
      try await journal.close()
      #expect(throws: JournalError.closed) { _ = try journal.append(kind: 1, bytes: []) }
      try await journal.close()
    }
    let found = try Journal.verify(directory: directory.path)
    #expect(found.damage.isEmpty)
    #expect(found.recordCount == expected.count)
    #expect(found.segments.count > 3)
  }

  @Test("the lz4 tool reads every segment and finds the records in it")
  func lz4Tool() async throws {
    let directory = try TemporaryDirectory()
    var options = JournalOptions()
    options.segmentByteCount = 200_000
    let (journal, _, _) = try open(directory.path, options)
    var expected: [UInt8] = []
    for number in 1...6000 as ClosedRange<UInt64> {
      let record = TestRecord.numbered(number, byteCount: number % 3 == 0 ? 32 : 200)
      _ = try await journal.appendWaiting(record)
      expected += record.bytes
    }
    try await journal.close()
    #expect(directory.segments.count >= 3)
    var payloads: [UInt8] = []
    for name in directory.segments {
      #expect(try run("lz4", ["-t", directory.path + "/" + name]).status == 0)
      let (status, output) = try run("lz4", ["-dc", directory.path + "/" + name])
      #expect(status == 0)
      // Read by the description of the format, without the code under test.
      #expect(String(decoding: output[3..<11], as: UTF8.self) == "CARILLON")
      var offset = 0
      while offset < output.count {
        var (length, shift) = (0, 0)
        while output[offset] >= 0x80 {
          length |= Int(output[offset] & 0x7F) << shift
          shift += 7
          offset += 1
        }
        length |= Int(output[offset]) << shift
        let kind = output[offset + 1]
        offset += 2
        if kind != 0 { payloads += output[offset..<(offset + length)] }
        offset += length
      }
    }
    #expect(payloads == expected)
  }

  @Test("many threads append at once: each record is there once, in order of position and of its thread")
  func manyThreads() async throws {
    let directory = try TemporaryDirectory()
    var options = JournalOptions()
    options.sync = .always
    options.blockByteCount = 2048
    options.blockCount = 3
    options.segmentByteCount = 100_000
    let journal = try open(directory.path, options).journal
    let positions = await withTaskGroup(of: [UInt64].self) { group in
      for thread in 0..<6 as Range<UInt8> {
        group.addTask {
          var positions: [UInt64] = []
          for number in 0..<2000 {
            let bytes: [UInt8] = [thread, UInt8(number & 0xFF), UInt8(number >> 8)]
            guard let position = try? await journal.appendWaiting(TestRecord(position: 0, kind: 1, bytes: bytes)) else {
              return positions
            }
            positions.append(position.rawValue)
            if number % 50 == 0 { try? await journal.durable(through: position) }
          }
          return positions
        }
      }
      return await group.reduce(into: []) { $0 += $1 }
    }
    try await journal.close()
    #expect(positions.sorted() == Array(1...12000))
    let records = try open(directory.path).records
    #expect(records.map(\.position) == Array(1...12000))
    var next = Array(repeating: 0, count: 6)
    for record in records {
      let number = Int(record.bytes[1]) | Int(record.bytes[2]) << 8
      #expect(next[Int(record.bytes[0])] == number)
      next[Int(record.bytes[0])] += 1
    }
  }

  @Test("a second owner is refused with the pid of the first, and accepted when the first has gone")
  func lock() async throws {
    let directory = try TemporaryDirectory()
    let first = try open(directory.path).journal
    #expect(throws: JournalError.inUse(path: directory.path, pid: getpid())) { _ = try open(directory.path) }
    try await first.close()
    let second = try open(directory.path).journal
    try await second.close()
  }

  @Test("an owner that was killed does not block the next one")
  func killedOwner() async throws {
    let directory = try TemporaryDirectory()
    // flock(1) takes the same lock. It reports when it has it; then its process is killed.
    let owner = try ChildProcess(
      [
        "--no-fork", directory.path + "/lock", "sh", "-c", "echo $$ > \"$0\"; echo; exec sleep 600",
        directory.path + "/lock",
      ], program: "flock")
    #expect(await owner.line(0) == "")
    #expect(throws: JournalError.inUse(path: directory.path, pid: owner.identifier)) {
      _ = try open(directory.path)
    }
    owner.send(SIGKILL)
    _ = await owner.ending()
    let journal = try open(directory.path).journal
    try await journal.close()
  }

  @Test("a full disk stops the journal with a clear error, and what was acknowledged is recovered")
  func fullDisk() async throws {
    // A limit on file sizes makes writes fail as a full disk does. It applies to the whole process,
    // so this test has its own.
    await #expect(processExitsWith: .success) { try await fillDisk() }
  }

  @Test(
    "a process that is killed at any moment leaves everything that was acknowledged",
    arguments: [JournalSync.always, .interval(.milliseconds(3)), .never])
  func killedWriter(sync: JournalSync) async throws {
    var generator = SystemRandomNumberGenerator()
    for round in 0..<4 {
      let directory = try TemporaryDirectory()
      let path = directory.path
      let isInterval = sync != .always && sync != .never
      let isNever = sync == .never
      let microseconds = UInt32.random(in: 2000...60_000, using: &generator)
      await #expect(processExitsWith: .signal(SIGKILL)) {
        [
          path = path as String, isInterval = isInterval as Bool, isNever = isNever as Bool,
          microseconds = microseconds as UInt32
        ] in
        try await writeUntilKilled(
          path, sync: isNever ? .never : isInterval ? .interval(.milliseconds(3)) : .always, after: microseconds)
      }
      let acknowledged = try Data(contentsOf: URL(filePath: path + "/acknowledged")).count
      let (journal, recovery, records) = try open(path)
      #expect(records.count >= acknowledged, "round \(round), killed after \(microseconds) µs: \(recovery)")
      #expect(
        records == (0..<records.count).map { .numbered(UInt64($0) + 1, byteCount: 100) },
        "round \(round), killed after \(microseconds) µs")
      try await journal.close()
    }
  }

  @Test("a directory that cannot be created is an error that names it")
  func noDirectory() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/no/such"
    #expect(throws: JournalError.file(JournalFileError(.makeDirectory, path: path, code: ENOENT))) {
      _ = try open(path)
    }
    let inspected = #expect(throws: JournalError.self) { _ = try Journal.verify(directory: path) }
    #expect(inspected?.description == "cannot open \(path): No such file or directory")
  }

  @Test("files that are not segments are left alone, and a folder named like a segment is an error")
  func otherFiles() async throws {
    let directory = try TemporaryDirectory()
    for name in ["notes.txt", "segment-1.lz4", "segment-000000000001.lz4.bak"] {
      try Data("x".utf8).write(to: URL(filePath: directory.path + "/" + name))
    }
    let journal = try open(directory.path).journal
    try await journal.close()
    #expect(FileManager.default.fileExists(atPath: directory.path + "/segment-1.lz4"))
    try FileManager.default.createDirectory(
      atPath: directory.path + "/segment-000000000009.lz4", withIntermediateDirectories: false)
    #expect(throws: JournalError.self) { _ = try open(directory.path) }
  }
}

extension Journal {
  func appendWaiting(_ record: TestRecord) async throws(JournalError) -> JournalPosition {
    while true {
      do { return try append(kind: max(record.kind, 1), bytes: record.bytes) } catch {
        guard error == .full else { throw error }
        await room()
      }
    }
  }
}
