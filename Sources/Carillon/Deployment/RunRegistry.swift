internal import PushEngine
internal import Synchronization

/// The running campaigns and single sends of one app, so that they can be ended together.
final class RunRegistry: Sendable {
  struct Run: Sendable {
    /// Takes in nothing new, and ends in good order.
    var drain: @Sendable () -> Void
    /// Ends as soon as it can.
    var cancel: @Sendable () -> Void
    /// It can resume when its app is removed and added again.
    var isKept = false
    /// For how long it has stood still; see ``StallClock``.
    var stall: (@Sendable () -> Duration)?
  }

  private struct State {
    var runs: [UInt64: Run] = [:]
    var nextNumber: UInt64 = 0
    /// Kept runs that are not added yet.
    var beginningCount = 0
    var isClosed = false

    var inOrder: [Run] { runs.sorted { $0.key < $1.key }.map(\.value) }
  }

  private let state = Mutex(State())
  /// Opens when the registry is closed and every run has ended.
  let finished = Gate()

  /// Nil once the registry is closed: then nothing may begin.
  func add(_ run: Run) -> UInt64? {
    state.withLock { state in
      guard !state.isClosed else { return nil }
      state.nextNumber += 1
      state.runs[state.nextNumber] = run
      return state.nextNumber
    }
  }

  func remove(_ number: UInt64) {
    let isFinished = state.withLock { state in
      state.runs[number] = nil
      return state.isClosed && state.runs.isEmpty
    }
    if isFinished { finished.open() }
  }

  /// No run may begin any more, and running ones are drained.
  func drain() {
    let runs = state.withLock { state in
      state.isClosed = true
      return state.inOrder
    }
    for run in runs { run.drain() }
    if runs.isEmpty { finished.open() }
  }

  /// For how long the one has stood still that has done so for longest.
  var longestStall: Duration {
    let runs = state.withLock { $0.inOrder }
    return runs.compactMap { $0.stall?() }.max() ?? .zero
  }

  /// A run that can resume with its app is about to be added. From now on the app is not given up
  /// until ``endBeginning()``.
  ///
  /// - Returns: false once the registry is closed.
  func startBeginning() -> Bool {
    state.withLock { state in
      guard !state.isClosed else { return false }
      state.beginningCount += 1
      return true
    }
  }

  /// It was added, or will not be.
  func endBeginning() { state.withLock { $0.beginningCount = max(0, $0.beginningCount - 1) } }

  /// Closes the registry, unless a run remains or begins that can resume with its app.
  ///
  /// - Returns: whether it is closed.
  func closeUnlessKept() -> Bool {
    state.withLock { state in
      guard state.beginningCount == 0, !state.runs.values.contains(where: \.isKept) else { return false }
      state.isClosed = true
      return true
    }
  }

  func cancelAll(where isMeant: (Run) -> Bool = { _ in true }) {
    let runs = state.withLock { $0.inOrder }
    for run in runs where isMeant(run) { run.cancel() }
  }
}
