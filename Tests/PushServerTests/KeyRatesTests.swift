internal import PushWire
internal import Testing

@testable internal import PushServer

@Suite("Rates of keys")
struct KeyRatesTests {
  @Test("a key asks as often as its rate, others are not affected, and waiting helps")
  func rates() throws {
    var rates = KeyRates(perSecond: 10)
    let start = Instant(nanoseconds: 5_000_000_000)
    let first = (0..<10).map { _ in rates.admit("a", now: start) }
    #expect(first.allSatisfy { $0 == nil })
    let refused = rates.admit("a", now: start)
    let next = try #require(refused)
    #expect(next.since(start) <= .milliseconds(101))
    #expect(next.since(start) >= .milliseconds(99))
    let other = rates.admit("b", now: start)
    #expect(other == nil)
    let again = [rates.admit("a", now: next), rates.admit("a", now: next)]
    #expect(again.map { $0 == nil } == [true, false])
    // Refused requests cost nothing.
    let later = (0..<11).map { _ in rates.admit("a", now: next + .seconds(1)) }
    #expect(later.map { $0 == nil } == [Bool](repeating: true, count: 10) + [false])
  }

  @Test("services share a key's rate, and each follows how many they are")
  func shared() {
    var services = [KeyRates(perSecond: 30), KeyRates(perSecond: 30), KeyRates(perSecond: 30)]
    var now = Instant(nanoseconds: 5_000_000_000)
    /// What is admitted in so many seconds, while the client asks the services in turn, too often.
    func admitted(_ seconds: Int, of count: Int) -> Int {
      (0..<(seconds * 600)).count { place in
        now = now + .nanoseconds(1_000_000_000 / 600)
        return services[place % count].admit("a", among: count, now: now) == nil
      }
    }
    _ = admitted(2, of: 3)
    let three = admitted(20, of: 3)
    #expect((590...610).contains(three), "\(three)")
    _ = admitted(2, of: 1)
    let one = admitted(20, of: 1)
    #expect((590...610).contains(one), "\(one)")
    _ = admitted(2, of: 2)
    let two = admitted(20, of: 2)
    #expect((590...610).contains(two), "\(two)")
  }

  @Test("a rate below one a second allows single requests")
  func slow() throws {
    var rates = KeyRates(perSecond: 0.5)
    let now = Instant(nanoseconds: 1)
    let first = rates.admit("a", now: now)
    #expect(first == nil)
    let refused = rates.admit("a", now: now)
    let next = try #require(refused)
    #expect(next.since(now) >= .milliseconds(1_999))
    let second = rates.admit("a", now: next)
    #expect(second == nil)
  }

  @Test("whoever comes back after whole seconds gets the whole rate", arguments: [0.3, 0.7, 1, 1.5, 10])
  func wholeSeconds(perSecond: Double) {
    var rates = KeyRates(perSecond: perSecond)
    let start = Instant(nanoseconds: 1)
    var now = start
    var count = 0
    while now.since(start) < .seconds(600) {
      if let next = rates.admit("a", now: now) {
        now = now + .seconds(Int64(next.since(now).inSeconds.rounded(.up)))
      } else {
        count += 1
      }
    }
    #expect(Double(count) >= 0.97 * perSecond * 600, "\(count)")
    #expect(Double(count) <= perSecond * 602 + 2, "\(count)")
  }
}
