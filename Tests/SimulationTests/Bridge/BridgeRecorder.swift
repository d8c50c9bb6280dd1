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
    /// What was ever told: the lines of each connection's frames, by their numbers.
    var lines: [UInt64: [UInt64: ForwardedLine]] = [:]
  }

  private let state = Mutex(State())

  func add(_ records: [BridgeModel.Record]) {
    state.withLock { state in
      state.waiting += records.map(Entry.record)
      for case .frame(let frame, let line) in records {
        state.lines[frame.connection, default: [:]][frame.number] = line
      }
    }
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
  func recover(
    journalLines: [UInt64: UInt64]
  ) -> [(line: ForwardedLine, frame: BridgeRecovery.Frame, isByResponse: Bool)] {
    let entries = state.withLock { $0.stored }
    var answers: [ForwardedLine: FrameAnswer] = [:]
    var ends: [UInt64: BridgeRecovery.End] = [:]
    // By process: each has a clock of its own.
    var lastSigns: [UInt64: Instant] = [:]
    for entry in entries {
      switch entry {
      case .outcome(let line, let answer): answers[line] = answer
      case .record(.ended(let connection, let end)): ends[connection] = end
      case .record(.frame(let frame, _)): lastSigns[frame.connection >> 32] = frame.answeredAt
      }
    }
    var recovery = BridgeRecovery()
    for case .record(.frame(var frame, let line)) in entries {
      let isRecent = isRecent(frame, lastSigns)
      frame.answer = answers[line]
      frame.answeredAt = Instant(nanoseconds: 1_000_000_000)
      recovery.read(
        frame, as: line, ends[frame.connection], isRecent: isRecent,
        isInJournal: UInt64(line.line) <= journalLines[line.high] ?? 0)
    }
    return recovery.frames
  }

  private func isRecent(_ frame: BridgeRecovery.Frame, _ lastSigns: [UInt64: Instant]) -> Bool {
    frame.answeredAt + BridgeRecovery.reach >= lastSigns[frame.connection >> 32] ?? frame.answeredAt
  }

  /// Frames of a connection that were neither answered nor are in the journal.
  func lostFrames(_ connection: UInt64, journalLines: [UInt64: UInt64]) -> Set<UInt64> {
    state.withLock { state in
      var answered: Set<ForwardedLine> = []
      for case .outcome(let line, _) in state.stored { answered.insert(line) }
      let lines = state.lines[connection] ?? [:]
      return Set(
        lines.filter { !answered.contains($0.value) && UInt64($0.value.line) > journalLines[$0.value.high] ?? 0 }.keys)
    }
  }
}
