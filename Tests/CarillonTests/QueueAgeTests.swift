internal import PushWire
internal import Testing

@testable internal import Carillon

@Suite struct QueueAgeTests {
  private static func at(_ milliseconds: Int) -> Instant { .start + .milliseconds(milliseconds) }

  @Test("the oldest is the first without an outcome, to a tenth of a second")
  func oldest() {
    var age = QueueAge()
    #expect(age.oldest == nil)
    age.took(through: 3, now: Self.at(1_000))
    age.took(through: 5, now: Self.at(1_050))
    age.took(through: 9, now: Self.at(2_000))
    #expect(age.oldest == Self.at(1_000))
    age.settled(4)
    #expect(age.oldest == Self.at(1_000))
    age.settled(5)
    #expect(age.oldest == Self.at(2_000))
    age.settled(9)
    #expect(age.oldest == nil)
    age.took(through: 10, now: Self.at(2_010))
    #expect(age.oldest == Self.at(2_010))
  }

  @Test("a queue that grows for days never says less than it is")
  func bounded() {
    var age = QueueAge()
    for line in 1...100_000 { age.took(through: UInt64(line), now: Self.at(line * 1_000)) }
    for count in [1, 500, 50_000, 99_999] as [UInt64] {
      age.settled(count)
      let oldest = age.oldest
      #expect(oldest.map { $0 <= Self.at(Int(count + 1) * 1_000) } == true, "after \(count)")
    }
    age.settled(100_000)
    #expect(age.oldest == nil)
  }
}
