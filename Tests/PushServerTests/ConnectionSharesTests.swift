internal import Support
internal import Testing

@testable internal import PushServer

@Suite("Shares of a listener's connections")
struct ConnectionSharesTests {
  private typealias Shares = ConnectionShares<Int>

  @Test("without a key, the oldest connection makes room for a newcomer, and those with one stay")
  func keyless() {
    var shares = Shares(.init(all: 10, keyless: 3))
    for id in 0..<3 { #expect(shares.add(id, from: "a") == .admitted(closing: nil)) }
    shares.note(0, hasKey: true)
    #expect(shares.add(3, from: "a") == .admitted(closing: nil))
    #expect(shares.add(4, from: "a") == .admitted(closing: 1))
    // Its key was revoked: it is the youngest of those without one.
    shares.note(0, hasKey: false)
    shares.note(2, hasKey: true)
    #expect(shares.add(5, from: "a") == .admitted(closing: 3))
    #expect(shares.add(6, from: "a") == .admitted(closing: 4))
    #expect(shares.add(7, from: "a") == .admitted(closing: 0))
    #expect(!shares.isFull)
  }

  @Test("one address has its share, and a connection that ends is one less")
  func addresses() {
    var shares = Shares(.init(all: 4, perAddress: 2))
    #expect(shares.add(0, from: "a") == .admitted(closing: nil))
    #expect(shares.add(1, from: "a") == .admitted(closing: nil))
    #expect(shares.add(2, from: "a") == .refused)
    #expect(shares.add(3, from: "b") == .admitted(closing: nil))
    shares.remove(0)
    shares.remove(0)
    #expect(shares.add(4, from: "a") == .admitted(closing: nil))
    #expect(shares.add(5, from: "b") == .admitted(closing: nil))
    #expect(shares.isFull)
    shares.remove(99)
    #expect(shares.isFull)
  }

  /// What a listener has, as slowly as can be.
  private struct Model {
    var keyless: [Int] = []
    var keyed: [Int] = []

    mutating func add(_ id: Int, limit: Int) -> Int? {
      let closing = keyless.count >= limit ? keyless.removeFirst() : nil
      keyless.append(id)
      return closing
    }
  }

  @Test("whatever comes and goes, the order is that of a plain list", arguments: 0..<20)
  func random(seed: UInt64) {
    print("seed \(seed)")
    var generator = SeededGenerator(seed: seed)
    var (shares, model) = (Shares(.init(keyless: 8)), Model())
    for id in 0..<2_000 {
      #expect(shares.add(id, from: "") == .admitted(closing: model.add(id, limit: 8)))
      for _ in 0..<Int.random(in: 0..<4, using: &generator) {
        let other = Int.random(in: max(0, id - 20)...id, using: &generator)
        switch Int.random(in: 0..<3, using: &generator) {
        case 0:
          shares.note(other, hasKey: true)
          guard let index = model.keyless.firstIndex(of: other) else { continue }
          model.keyed.append(model.keyless.remove(at: index))
        case 1:
          shares.note(other, hasKey: false)
          guard let index = model.keyed.firstIndex(of: other) else { continue }
          model.keyless.append(model.keyed.remove(at: index))
        default:
          shares.remove(other)
          model.keyless.removeAll { $0 == other }
          model.keyed.removeAll { $0 == other }
        }
      }
    }
  }
}
