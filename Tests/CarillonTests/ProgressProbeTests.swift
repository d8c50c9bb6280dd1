internal import Support
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
  func stuck() async throws {
    let probe = ProgressProbe()
    let late = Answers()
    probe.ask("the loop") { $0() }
    for _ in 0..<3 { probe.ask("the store") { late.add($0) } }
    #expect(late.count == 1)
    #expect(probe.silent(for: .seconds(600)).isEmpty)
    try await waitUntil("it is late") { !probe.silent(for: .milliseconds(5)).isEmpty }
    #expect(probe.silent(for: .milliseconds(5)) == ["the store"])
    late.giveAll()
    #expect(probe.silent(for: .zero).isEmpty)
    probe.ask("the store") { late.add($0) }
    #expect(late.count == 2)
  }
}
