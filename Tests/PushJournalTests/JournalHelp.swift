internal import PushJournal
internal import Support
internal import Synchronization

/// A record in a form that tests can compare.
struct TestRecord: Hashable, CustomStringConvertible {
  var position: UInt64
  var kind: UInt8
  var bytes: [UInt8]

  var description: String { "\(position)/\(kind):\(bytes.count)" }

  /// A record whose content follows from its position.
  static func numbered(_ position: UInt64, byteCount: Int) -> TestRecord {
    var generator = SeededGenerator(seed: position &* 0x9E37 &+ UInt64(byteCount))
    return TestRecord(position: position, kind: UInt8(1 + position % 255), bytes: generator.bytes(byteCount))
  }
}

/// A journal over a simulated disk, which the test runs itself.
final class HandRun {
  let journal: Journal
  let recovery: JournalRecovery
  let recovered: [TestRecord]
  private(set) var deadline: Duration?

  init(_ disk: some JournalFiles, _ options: JournalOptions) throws {
    var records: [TestRecord] = []
    (journal, recovery) = try Journal.open(disk, options: options, runByHand: {}) { position, kind, bytes in
      records.append(
        TestRecord(position: position.rawValue, kind: kind, bytes: unsafe bytes.withUnsafeBytes { unsafe Array($0) }))
    }
    recovered = records
  }

  func append(_ record: TestRecord) throws -> JournalPosition {
    try journal.append(kind: record.kind, bytes: record.bytes)
  }

  func run(now: Duration) { deadline = journal.run(now: now) }

  /// Makes all records durable at once.
  func flush() { run(now: .seconds(1_000_000)); run(now: .seconds(2_000_000)) }

  func close() -> Result<Void, JournalError>? {
    let result = Mutex<Result<Void, JournalError>?>(nil)
    journal.close { outcome in result.withLock { $0 = outcome } }
    flush()
    return result.withLock { $0 }
  }
}

extension Journal {
  func append(kind: UInt8, bytes: [UInt8]) throws(JournalError) -> JournalPosition {
    try unsafe append(kind: kind, byteCount: bytes.count) { destination in unsafe destination.copyBytes(from: bytes) }
  }

  static func records(_ files: some JournalFiles) throws -> (recovery: JournalRecovery, records: [TestRecord]) {
    var records: [TestRecord] = []
    let recovery = try inspect(files) { position, kind, bytes in
      records.append(
        TestRecord(position: position.rawValue, kind: kind, bytes: unsafe bytes.withUnsafeBytes { unsafe Array($0) }))
    }
    return (recovery, records)
  }
}

extension JournalOptions {
  /// So small that a few hundred bytes make several frames and segments.
  static func small(
    sync: JournalSync = .always, segment: Int = 1500, block: Int = 512, blocks: Int = 3
  ) -> JournalOptions {
    var options = JournalOptions()
    options.sync = sync
    options.segmentByteCount = segment
    options.blockByteCount = block
    options.blockCount = blocks
    return options
  }
}
