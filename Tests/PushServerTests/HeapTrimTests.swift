internal import Foundation
internal import Testing

@testable internal import PushServer

@Suite("HeapTrim")
struct HeapTrimTests {
  @Test("memory is given back when much has become free since it was last given back")
  func table() {
    var heap = HeapTrim(threshold: 16)
    for (free, isDue) in [
      (0, false), (15, false), (16, true),
      // This was given back.
      (16, false), (31, false), (32, true), (32, false),
      // A peak uses it again, and ends.
      (5, false), (20, false), (21, true), (100, true), (100, false),
    ] {
      let decision = heap.isDue(freeByteCount: free)
      #expect(decision == isDue, "\(free)")
    }
  }

  @Test("a process that has used much and freed it has it no longer")
  func process() throws {
    // The tests beside it use memory meanwhile. Without a trim, no attempt succeeds.
    var difference = 0
    for _ in 0..<50 where difference < 20 << 20 { difference = try differenceAfterTrim() }
    #expect(difference >= 20 << 20)
  }

  /// How much less memory the process has after it has freed 40 MB.
  private func differenceAfterTrim() throws -> Int {
    var heap = HeapTrim(threshold: 1 << 20)
    heap.look()
    var blocks = (0..<4_000).map { [UInt8](repeating: UInt8($0 & 0xFF), count: 10_000) }
    // The last one keeps the heap from shrinking by itself.
    let last = blocks[3_999]
    // Otherwise what other tests had freed before could hide what becomes free now.
    heap.look()
    let used = try residentByteCount()
    blocks = []
    heap.look()
    let left = try residentByteCount()
    return last.count == 10_000 ? used - left : 0
  }

  private func residentByteCount() throws -> Int {
    let text = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8)
    return (Int(text.split(separator: " ")[1]) ?? 0) * 4_096
  }
}
