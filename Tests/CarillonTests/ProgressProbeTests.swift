internal import PushWire
internal import Synchronization
internal import Testing

@testable internal import Carillon

@Suite struct ProgressProbeTests {
  private final class Answers: Sendable {
    private let answers = Mutex<[@Sendable () -> Void]>([])
    var count: Int { answers.withLock { $0.count } }
    func add(_ answer: @escaping @Sendable () -> Void) { answers.withLock { $0.append(answer) } }
    func giveAll() { answers.withLock { $0 }.forEach { $0() } }
  }

  @Test("a part that does not answer is named until it does, and is asked once")
  func stuck() {
    let probe = ProgressProbe()
    let late = Answers()
    let start = Instant(nanoseconds: 7)
    probe.ask("the loop", now: start) { $0() }
    for _ in 0..<3 { probe.ask("the store", now: start) { late.add($0) } }
    #expect(late.count == 1)
    #expect(probe.silent(for: .seconds(1), now: start + .seconds(1)).isEmpty)
    #expect(probe.silent(for: .seconds(1), now: start + .seconds(2)) == ["the store"])
    late.giveAll()
    #expect(probe.silent(for: .zero, now: start + .seconds(2)).isEmpty)
    probe.ask("the store", now: start + .seconds(2)) { late.add($0) }
    #expect(late.count == 2)
  }
}
