internal import Testing

@testable internal import PushServer

@Suite("Turns of keys that send large bodies")
struct TurnCircleTests {
  @Test("a key that waits gets the next turn but one, however many turns another key waits for")
  func order() {
    var circle = TurnCircle<String>(places: 1)
    let begun = ["a1", "a2", "a3", "b1", "c1", "b2"].map { circle.ask($0, of: String($0.prefix(1))) }
    #expect(begun == [true, false, false, false, false, false])
    var order: [String?] = []
    for _ in 0..<7 { order.append(circle.end()) }
    #expect(order == ["a2", "b1", "c1", "a3", "b2", nil, nil])
  }

  @Test("turns run beside each other up to the number of places")
  func places() {
    var circle = TurnCircle<Int>(places: 2)
    let begun = (0..<3).map { circle.ask($0, of: "a") }
    #expect(begun == [true, true, false])
    let next = [circle.end(), circle.end()]
    #expect(next == [2, nil])
    let again = circle.ask(3, of: "b")
    #expect(again)
  }
}
