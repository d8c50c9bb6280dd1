internal import PushJournal
internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization

@testable internal import PushEngine

/// Runs a journal on a simulated loop, without a thread of its own.
final class JournalDriver: Sendable {
  private struct State {
    var journal: EngineJournal?
    /// The time of the only timer. Otherwise each outdated timer would set another one, without
    /// end.
    var timer: (any LoopTimer)?
    /// The disk is at work until then.
    var isBusyUntil = Instant.start
  }

  private let loop: SimulatedLoop
  private let state = Mutex(State())

  /// How long a write and its sync take.
  private let writing: Duration

  init(loop: SimulatedLoop, writing: Duration = .zero) { (self.loop, self.writing) = (loop, writing) }

  func drive(_ journal: EngineJournal) {
    state.withLock { $0.journal = journal }
    poke()
  }

  /// The journal is closed. Breaks the reference cycle between journal and driver.
  func stop() { state.withLock { $0.journal = nil } }

  func poke() { loop.execute { self.run() } }

  private func run() {
    let (journal, isBusyUntil) = state.withLock { ($0.journal, $0.isBusyUntil) }
    guard let journal else { return }
    guard loop.now >= isBusyUntil else {
      let timer = loop.schedule(at: isBusyUntil) { self.run() }
      state.withLock { exchange(&$0.timer, with: timer) }?.cancel()
      return
    }
    state.withLock { $0.isBusyUntil = loop.now + writing }
    let next = journal.run(now: .nanoseconds(loop.now.nanoseconds))
    let timer = next.map { loop.schedule(at: Instant(nanoseconds: $0.nanoseconds)) { self.run() } }
    state.withLock { exchange(&$0.timer, with: timer) }?.cancel()
  }
}

extension Duration {
  fileprivate var nanoseconds: UInt64 {
    UInt64(components.seconds) * 1_000_000_000 + UInt64(components.attoseconds / 1_000_000_000)
  }
}
