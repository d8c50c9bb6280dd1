internal import Foundation
@testable internal import PushEngine
internal import PushWire
internal import Support
internal import Testing

/// The book of a journal, and what a new process makes of its records.
@Suite struct EngineJournalTests {
  private static let environment = ProcessInfo.processInfo.environment
  private static let firstSeed = environment["CARILLON_FIRST_SEED"].flatMap { UInt64($0) } ?? 1
  private static let seedCount = environment["CARILLON_SEEDS"].flatMap { UInt64($0) } ?? 80

  @Test("whenever a process ends, the next one knows what the journal had been told up to some record that was not durable before, or the last one", arguments: 0..<4 as Range<UInt64>)
  func recovery(part: UInt64) async throws {
    for seed in stride(from: Self.firstSeed + part, to: Self.firstSeed + Self.seedCount, by: 4) {
      do {
        let world = try JournalWorld(seed: seed)
        for _ in 0..<5 {
          try await world.live(operations: Int.random(in: 10...120, using: &world.random))
          switch Int.random(in: 0..<3, using: &world.random) {
          case 0: try await world.close()
          case 1: try world.crash(losesUnsynced: false)
          default: try world.crash(losesUnsynced: true)
          }
        }
      } catch {
        Issue.record("seed \(seed): \(error)")
      }
    }
  }

  @Test("when everything is settled nothing is left on the disk, whatever was left and returned on the way")
  func nothingIsLeft() async throws {
    for seed in UInt64(1)...20 {
      do {
        let world = try JournalWorld(seed: seed)
        for _ in 0..<3 {
          try await world.live(operations: 80)
          try world.crash(losesUnsynced: false)
        }
        try world.settleAll()
        #expect(world.journal.campaigns.allSatisfy { $0.phase == .ended })
        try await world.close()
        // What no campaign needs goes with the next checkpoint: the lanes of the process before.
        try await world.close()
        try await world.close()
        #expect(world.journal.campaigns.isEmpty, "seed \(seed)")
        #expect(world.byteCount < 1_000, "seed \(seed): \(world.byteCount) bytes in \(world.disk.fileNames)")
      } catch {
        Issue.record("seed \(seed): \(error)")
      }
    }
  }

  @Test("while what is taken in is settled soon, the journal stays as small as a few checkpoints")
  func boundedDisk() async throws {
    let small = try SmallJournal(SimulatedDisk(), checkpointByteCount: 5_000)
    let (campaign, lane) = try await small.begin(count: 8)
    var largest = 0
    for claim in 1..<UInt64(1_000) {
      let start = claim * 8
      #expect(small.enqueue(8, from: start, of: campaign, in: lane))
      #expect(small.journal.intend(lane: lane, through: start + 8) != nil)
      // Two claims behind.
      if claim >= 2 {
        let run = JournalledRun(lane: lane, range: (start - 16)..<(start - 8), campaign: campaign, count: 8)
        small.journal.record(.settled(run, .accepted(.confirmed)))
      }
      small.run(Int(claim))
      largest = max(largest, small.byteCount)
    }
    #expect(largest < 15_000, "\(largest) bytes")
    #expect(small.copy().fileNames.count <= 3)
  }
}
