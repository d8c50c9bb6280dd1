internal import Glibc
internal import Support
internal import Testing

@testable internal import PushEngine

/// What lists could not take while they were away, on the journal's disk.
@Suite struct DeferredListTests {
  private func entry(_ number: Int) -> [UInt8] { [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: number) }

  @Test("what was appended is there for the next process, also after a loss of power; cleared, nothing is")
  func survives() throws {
    var random = SeededGenerator(seed: 7)
    let disk = SimulatedDisk()
    let list = DeferredList(disk)
    #expect(try list.entries().isEmpty)
    try list.append([entry(3), entry(0)])
    try list.append([entry(300)])
    disk.loseUnsynced(using: &random)
    let next = DeferredList(disk)
    #expect(try next.entries() == [entry(3), entry(0), entry(300)])
    try next.clear()
    #expect(try disk.list().isEmpty)
    try next.append([entry(1)])
    disk.loseUnsynced(using: &random)
    #expect(try DeferredList(disk).entries() == [entry(1)])
  }

  @Test("power lost at any step: every entry that was appended is there, and nothing else", arguments: 1...300)
  func powerLoss(seed: UInt64) throws {
    var random = SeededGenerator(seed: seed)
    let disk = SimulatedDisk()
    let list = DeferredList(disk)
    disk.fail(after: Int.random(in: 0..<12, using: &random))
    var (durable, offered): ([[UInt8]], [[UInt8]]) = ([], [])
    for number in 1...5 {
      let entries = [entry(number), entry(10 * number)]
      offered += entries
      guard (try? list.append(entries)) != nil else { break }
      durable += entries
    }
    disk.loseUnsynced(using: &random)
    let found = try DeferredList(disk).entries()
    #expect(found.starts(with: durable), "seed \(seed)")
    #expect(offered.starts(with: found), "seed \(seed)")
  }

  @Test("a disk that fails is named, with its reason")
  func failure() throws {
    let disk = SimulatedDisk()
    disk.failWrite(after: 0, .shortWrite(5, code: ENOSPC))
    let error = #expect(throws: UnsyncedList.self) { try DeferredList(disk).append([entry(3)]) }
    #expect(error?.code == ENOSPC)
    #expect(error?.isAway == false)
    #expect(error?.path == "simulated/deferred")
  }
}
