internal import PushWire
internal import Testing

@testable internal import PushGateway

/// The memory for identifiers that have been taken.
struct DuplicateFilterTests {
  @Test("among more than it holds none is taken for another, and the last million are all known")
  func bounds() {
    var filter = DuplicateFilter()
    let sequence = APNSIdentifierSequence(seed: (7, 9))
    func hashes(_ range: Range<UInt64>) -> [UInt64] { range.map { DuplicateFilter.hash(sequence[$0].high, sequence[$0].low) } }
    #expect(filter.insert(hashes(0..<2_300_000)) == 0)
    #expect(filter.insert(hashes(1_300_000..<2_300_000)) == 1_000_000)
    #expect(filter.insert(hashes(0..<1000)) == 0, "what is too long ago is forgotten")
    #expect(filter.insert(hashes(0..<1000)) == 1000)
  }

  @Test("the hash of nothing but zeros is kept like any other")
  func zero() {
    var filter = DuplicateFilter()
    #expect(filter.insert([0, 5, 0]) == 1 && filter.insert([0]) == 1 && filter.insert([5]) == 1)
  }
}
