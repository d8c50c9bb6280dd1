internal import PushEngine
internal import PushWire
internal import Support
internal import Synchronization

/// The store of a bridge in the simulation: what is told waits in memory until the journal's next
/// commit. It outlasts simulated processes; what waits does not.
final class BridgeRecorder: Sendable {
  private enum Entry {
    case record(BridgeModel.Record)
    case outcome(ForwardedLine, FrameAnswer)
  }

  private struct State {
    var waiting: [Entry] = []
    var stored: [Entry] = []
  }

  private let state = Mutex(State())

  func add(_ records: [BridgeModel.Record]) {
    state.withLock { $0.waiting += records.map(Entry.record) }
  }

  func add(_ line: ForwardedLine, _ answer: FrameAnswer) {
    state.withLock { $0.waiting.append(.outcome(line, answer)) }
  }

  func makeDurable() {
    state.withLock { state in
      state.stored += state.waiting
      state.waiting = []
    }
  }

  /// The process was killed.
  func loseWaiting() { state.withLock { $0.waiting = [] } }

  /// What a new process remembers.
  ///
  /// - Parameter journalLines: the last line that the journal has, by the number of the process.
  func recover(journalLines: [UInt64: UInt64]) -> [(line: ForwardedLine, frame: BridgeRecovery.Frame)] {
    let entries = state.withLock { $0.stored }
    var answers: [ForwardedLine: FrameAnswer] = [:]
    var ends: [UInt64: UInt64] = [:]
    for entry in entries {
      switch entry {
      case .outcome(let line, let answer): answers[line] = answer
      case .record(.ended(let connection, let from)): ends[connection] = from ?? .max
      case .record(.frame): break
      }
    }
    var recovery = BridgeRecovery()
    for case .record(.frame(let connection, let number, var frame, let line)) in entries {
      frame.answer = answers[line]
      recovery.read(
        frame, as: line, comesAgain: number >= ends[connection] ?? 0,
        isInJournal: UInt64(line.line) <= journalLines[line.high] ?? 0)
    }
    return recovery.frames
  }
}
