internal import Foundation
@testable internal import PushEngine
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
}
