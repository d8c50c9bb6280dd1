internal import Foundation
internal import Testing

@testable internal import PushTransport

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
    var heap = HeapTrim(threshold: 1 << 20)
    heap.look()
    var blocks = (0..<4_000).map { [UInt8](repeating: UInt8($0 & 0xFF), count: 10_000) }
    // The last one keeps the heap from shrinking by itself.
    let last = blocks[3_999]
    let used = try residentByteCount()
    blocks = []
    heap.look()
    #expect(try residentByteCount() < used - (20 << 20))
    #expect(last.count == 10_000)
  }

  private func residentByteCount() throws -> Int {
    let text = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8)
    return (Int(text.split(separator: " ")[1]) ?? 0) * 4_096
  }
}
