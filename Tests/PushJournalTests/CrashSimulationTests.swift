internal import Foundation
internal import Glibc
internal import PushJournal
internal import Support
internal import Synchronization
internal import Testing

/// Lives of a journal on a simulated disk under one seed. A crash at some step ends each life.
private final class CrashRun {
  var generator: SeededGenerator
  let disk = SimulatedDisk()
  /// Everything appended so far, by position; cut back to what a recovery found.
  var history: [TestRecord] = []
  /// Everything before this position was acknowledged.
  let acknowledged = Watermark()
  var released: UInt64 = 1
  var crashCount = 0
  var tornCount = 0
  var now = Duration.zero

  init(seed: UInt64) { generator = SeededGenerator(seed: seed) }

  func run(lives: Int) throws {
    for _ in 0..<lives { try live() }
    // The last recovery, without a fault.
    disk.restart()
    _ = try recover()
  }

  private func options() -> JournalOptions {
    let syncs: [JournalSync] = [.always, .interval(.milliseconds(10)), .interval(.milliseconds(1))]
    return .small(
      sync: syncs.randomElement(using: &generator) ?? .always, segment: Int.random(in: 200...3000, using: &generator),
      block: Int.random(in: 256...900, using: &generator), blocks: Int.random(in: 2...4, using: &generator))
  }

  /// Opens the journal and compares the recovered records with the appended ones. Nil if the power
  /// failed meanwhile.
  private func recover() throws -> HandRun? {
    let opened: HandRun
    do {
      opened = try HandRun(disk, options())
    } catch let error as JournalError {
      // Only a loss of power is allowed here: a crash must never look like damage.
      guard case .file(let cause) = error, cause.code == ENODEV else { throw error }
      return nil
    }
    let acked = acknowledged.value
    let first = opened.recovered.first?.position ?? opened.recovery.next.rawValue
    let next = opened.recovery.next.rawValue
    try #require(first <= max(released, 1), "records before \(first) are gone, released was \(released)")
    try #require(next > acked, "acknowledged up to \(acked), recovered up to \(next - 1)")
    try #require(next <= UInt64(history.count) + 1, "records were invented")
    try #require(
      opened.recovered == Array(history[Int(first - 1)..<Int(next - 1)]), "other records than those appended")
    if opened.recovery.tornTail != nil { tornCount += 1 }
    history.removeLast(history.count - Int(next - 1))
    released = min(released, next)
    // Opening has made all records durable.
    acknowledged.set(next - 1)
    return opened
  }

  private func live() throws {
    if generator.chance(90) { disk.fail(after: Int.random(in: 0..<120, using: &generator)) }
    if generator.chance(15) {
      disk.failWrite(
        after: Int.random(in: 0..<20, using: &generator),
        .shortWrite(Int.random(in: 0..<80, using: &generator), code: ENOSPC))
    }
    if generator.chance(10) { disk.failSync(after: Int.random(in: 0..<20, using: &generator)) }
    do {
      if let opened = try recover() { try work(opened) }
    } catch let error as JournalError {
      // A write or sync may fail while the journal is opened.
      guard case .file(let cause) = error, cause.code == ENOSPC || cause.code == EIO else { throw error }
    }
    crashCount += 1
    if generator.chance(25) { disk.restart() } else { disk.loseUnsynced(using: &generator) }
  }

  private func work(_ opened: HandRun) throws {
    let journal = opened.journal
    for _ in 0..<Int.random(in: 0..<150, using: &generator) {
      switch Int.random(in: 0..<100, using: &generator) {
      case ..<55:
        let record = TestRecord.numbered(
          UInt64(history.count) + 1, byteCount: Int.random(in: 0...120, using: &generator))
        do {
          let position = try opened.append(record)
          try #require(position.rawValue == record.position)
          history.append(record)
          if generator.chance(50) { wait(journal, position) }
        } catch JournalError.full {
          opened.run(now: now)
        } catch JournalError.failed {
          return
        }
      case ..<90:
        now += .milliseconds(Int.random(in: 0...6, using: &generator))
        opened.run(now: now)
      case ..<95: try? journal.startSegment()
      default:
        let position = UInt64.random(in: released...max(released, journal.nextPosition.rawValue), using: &generator)
        released = max(released, position)
        journal.release(before: JournalPosition(rawValue: position))
      }
    }
    if generator.chance(30) { _ = opened.close() }
  }

  private func wait(_ journal: Journal, _ position: JournalPosition) {
    journal.whenDurable(position) { [acknowledged] result in
      if case .success = result { acknowledged.raise(to: position.rawValue) }
    }
  }
}

private final class Watermark: Sendable {
  private let position = Mutex<UInt64>(0)

  var value: UInt64 { position.withLock { $0 } }
  func set(_ value: UInt64) { position.withLock { $0 = value } }
  func raise(to value: UInt64) { position.withLock { $0 = max($0, value) } }
}

@Suite("Crashes on a simulated disk")
struct CrashSimulationTests {
  private static let environment = ProcessInfo.processInfo.environment
  private static let firstSeed = environment["CARILLON_FIRST_SEED"].flatMap { UInt64($0) } ?? 1
  private static let seedCount = environment["CARILLON_SEEDS"].flatMap { UInt64($0) } ?? 3000

  @Test(
    "wherever the power fails, what was acknowledged is recovered in order, without inventions or damage",
    arguments: 0..<8 as Range<UInt64>)
  func acknowledgedIsRecovered(part: UInt64) throws {
    var crashes = 0
    var torn = 0
    for seed in stride(from: Self.firstSeed + part, to: Self.firstSeed + Self.seedCount, by: 8) {
      let run = CrashRun(seed: seed)
      do {
        try run.run(lives: 6)
      } catch {
        Issue.record("seed \(seed): \(error)")
        throw error
      }
      crashes += run.crashCount
      torn += run.tornCount
    }
    // Without torn tails the simulation would prove nothing.
    #expect(torn * 20 > crashes, "only \(torn) torn tails in \(crashes) crashes")
  }
}
