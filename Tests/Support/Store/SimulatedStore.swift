package import PushStore
internal import PushTransport
package import PushWire
internal import Synchronization

/// The store as one process of a simulated service sees it. What a call has returned for is on the
/// disk; what a call was doing when the process was killed may be.
///
/// The tests of `PushStore` run over it as well, so it does what the real ones do.
package final class SimulatedStore: Store {
  package struct Faults {
    /// In milliseconds, before and after a call has its effect.
    package var latency = 0...0
    /// Of 1000 calls, those that fail, before or after their effect.
    package var failuresPerMille = 0
    /// The number of the write that fails, and all later ones: the disk is full. Nil: none does.
    package var failsAtWrite: Int?
    /// Of 1000 calls, those with which the store is away, for up to half a minute.
    package var awayPerMille = 0
    /// Of 1000 calls, those that have their effect late, and those whose answer is late: by up to
    /// three seconds.
    package var latePerMille = 0
    /// Of 1000 writes that a thread waits for, those whose answer is lost.
    package var lostAnswersPerMille = 0
    /// Of 1000 calls, those whose commit did not wait for the standby, as a warning says. Of half
    /// of them the primary is lost with it.
    package var warnedPerMille = 0

    package init() {}

    /// The same plan has the same faults with it and without it.
    package static func awayPerMille(seed: UInt64) -> Int {
      var random = SeededGenerator(seed: seed ^ 0xA3A7)
      return [0, 0, 5, 100].randomElement(using: &random) ?? 0
    }
  }

  private struct State {
    var random: SeededGenerator
    var writeCount = 0
    /// Of outcomes, the last write that was acknowledged.
    var sequence: Int64
    var isDead = false
    /// Of its own, so that it changes nothing else that is drawn.
    var absences: SeededGenerator
    var awayUntil = Instant.start
    var neverLeaves = false
  }

  let disk: StoreDisk
  private let loop: SimulatedLoop?
  private let faults: Faults
  private let state: Mutex<State>
  private let hasLedger: Bool
  let plantedMistake: LedgerContents.PlantedMistake?
  package let node: String

  /// - Parameter loop: has the time for faults; nil: there are none.
  package init(
    _ disk: StoreDisk, _ loop: SimulatedLoop? = nil, _ faults: Faults = Faults(), seed: UInt64 = 0,
    hasLedger: Bool = false, node: String = "", plantedMistake: LedgerContents.PlantedMistake? = nil
  ) {
    (self.disk, self.loop, self.faults, self.hasLedger, self.node) = (disk, loop, faults, hasLedger, node)
    self.plantedMistake = plantedMistake
    state = Mutex(
      State(
        random: SeededGenerator(seed: seed), sequence: disk.contents.writeCounts[node] ?? 0,
        absences: SeededGenerator(seed: seed ^ 0xA3A7)))
  }

  package var writeCount: Int64 { state.withLock { $0.sequence } }

  func noteWrite(_ number: Int64) { state.withLock { $0.sequence = number } }

  package var file: String? { nil }
  package var logByteCount: Int { 0 }
  package var ledger: (any Ledger)? { hasLedger ? self : nil }
  package func close() throws(StoreError) {}

  /// Nothing of what the process asks for reaches the disk any more.
  package func kill() { state.withLock { $0.isDead = true } }

  /// It is away for this process until then.
  package func leave(until instant: Instant) {
    state.withLock { $0.awayUntil = max($0.awayUntil, instant) }
  }

  /// From now on it is never away.
  package func comeBack() { state.withLock { $0.neverLeaves = true } }

  // MARK: Faults

  package static let failure = StoreError.simulated(.failed, "simulated")

  private func pause() async {
    guard let loop else { return }
    let duration = state.withLock { state in
      let duration = Int.random(in: faults.latency, using: &state.random)
      guard faults.latePerMille > 0, Int.random(in: 0..<1_000, using: &state.absences) < faults.latePerMille else {
        return duration
      }
      return duration + Int.random(in: 0...3_000, using: &state.absences)
    }
    guard duration > 0 else { return }
    await withCheckedContinuation { continuation in
      _ = loop.schedule(at: loop.now + .milliseconds(duration)) { continuation.resume() }
    }
  }

  private func draws() -> Bool {
    state.withLock { state in Int.random(in: 0..<1_000, using: &state.random) < faults.failuresPerMille }
  }

  private var isAway: Bool {
    guard let loop else { return false }
    return state.withLock { state in
      if state.neverLeaves { return false }
      if loop.now < state.awayUntil { return true }
      guard Int.random(in: 0..<1_000, using: &state.absences) < faults.awayPerMille else { return false }
      state.awayUntil = loop.now + .milliseconds(Int.random(in: 0...30_000, using: &state.absences))
      return true
    }
  }

  private var isDead: Bool { state.withLock { $0.isDead } }

  func call<Result: Sendable>(
    _ body: (inout StoreContents) throws(StoreError) -> Result
  ) async throws(StoreError) -> Result {
    await pause()
    guard !isDead, !draws() else { throw Self.failure }
    guard !isAway else { throw .simulated(.away, "it is locked") }
    let result = try change(body)
    await pause()
    guard !isDead, !draws() else { throw Self.failure }
    return result
  }

  private func change<Result: Sendable>(
    _ body: (inout StoreContents) throws(StoreError) -> Result
  ) throws(StoreError) -> Result {
    let (isWarned, isLost) = state.withLock { state in
      guard faults.warnedPerMille > 0 else { return (false, false) }
      let isWarned = Int.random(in: 0..<1_000, using: &state.absences) < faults.warnedPerMille
      return (isWarned, isWarned && Bool.random(using: &state.absences))
    }
    let result = try disk.change { contents throws(StoreError) in
      let before = contents
      let result = try body(&contents)
      if isLost { contents = before }
      return result
    }
    if isWarned, plantedMistake != .trustsWarnings {
      throw .simulated(.away, "a commit did not wait for the standby")
    }
    return result
  }

  func callNow<Result: Sendable>(
    _ body: (inout StoreContents) throws(StoreError) -> Result
  ) throws(StoreError) -> Result {
    let fails = state.withLock { state in
      state.writeCount += 1
      return state.isDead || faults.failsAtWrite.map { state.writeCount >= $0 } ?? false
    }
    if fails { throw .simulated(.full, "the disk is full") }
    guard !isAway else { throw .simulated(.away, "it is locked") }
    let result = try change(body)
    if faults.lostAnswersPerMille > 0, drawsLostAnswer() { throw .simulated(.away, "the answer is lost") }
    return result
  }

  private func drawsLostAnswer() -> Bool {
    state.withLock { state in Int.random(in: 0..<1_000, using: &state.absences) < faults.lostAnswersPerMille }
  }
}
