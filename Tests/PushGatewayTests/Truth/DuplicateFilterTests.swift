internal import PushWire
internal import Testing

@testable internal import PushGateway

/// The filter of accepted identifiers.
struct DuplicateFilterTests {
  @Test("no identifier is mistaken for another, and the last million are all found")
  func bounds() {
    var filter = DuplicateFilter()
    let sequence = APNSIdentifierSequence(IdentifierSeed(high: 7, low: 9))
    func hashes(_ range: Range<UInt64>) -> [UInt64] {
      range.map { DuplicateFilter.hash(sequence[$0].high, sequence[$0].low) }
    }
    #expect(filter.insert(hashes(0..<2_300_000)) == 0)
    #expect(filter.insert(hashes(1_300_000..<2_300_000)) == 1_000_000)
    #expect(filter.insert(hashes(0..<1000)) == 0, "old identifiers are dropped")
    #expect(filter.insert(hashes(0..<1000)) == 1000)
  }

  @Test("a hash of zero is kept like any other")
  func zero() {
    var filter = DuplicateFilter()
    #expect(filter.insert([0, 5, 0]) == 1)
    #expect(filter.insert([0]) == 1)
    #expect(filter.insert([5]) == 1)
  }
}
