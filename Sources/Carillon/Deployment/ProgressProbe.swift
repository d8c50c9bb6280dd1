internal import PushEngine
internal import PushTransport
package import PushWire
internal import Synchronization

/// Asks the parts of a process whether they still work. A part that does not answer is stuck.
///
/// No thread waits for an answer, so a part that never answers blocks nothing.
package final class ProgressProbe: Sendable {
  private let asked = Mutex<[String: Instant]>([:])

  package init() {}

  /// Asks a part, unless it still owes an answer.
  ///
  /// - Parameter post: hands the answer to the part, which calls it when it works.
  package func ask(_ part: String, now: Instant, _ post: (_ answer: @escaping @Sendable () -> Void) -> Void) {
    let isNew = asked.withLock { asked in
      guard asked[part] == nil else { return false }
      asked[part] = now
      return true
    }
    guard isNew else { return }
    post { [weak self] in self?.asked.withLock { $0[part] = nil } }
  }

  /// The parts that have owed an answer for longer than this.
  package func silent(for duration: Duration, now: Instant) -> [String] {
    asked.withLock { $0.filter { now.since($0.value) > duration }.keys.sorted() }
  }
}

extension Deployment {
  /// Asks every event loop for a turn, and the journal for a commit of what it has. Nothing is
  /// asked when the deployment does not run.
  package func answer(_ probe: ProgressProbe, now: Instant) { core.answer(probe, now: now) }
}

extension DeploymentCore {
  fileprivate func answer(_ probe: ProgressProbe, now: Instant) {
    guard let engine = runningEngine else { return }
    for (index, loop) in engine.loops.enumerated() {
      probe.ask("event loop \(index) of the engine", now: now) { loop.execute($0) }
    }
    probe.ask("the journal", now: now) { answer in
      guard let journal else { return answer() }
      // Also one that has failed: it says so at once.
      journal.whenAllIsDurable { _ in answer() }
    }
  }
}
