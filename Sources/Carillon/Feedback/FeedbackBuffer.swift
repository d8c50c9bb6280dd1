internal import PushEngine
internal import PushWire
internal import Synchronization

/// Entries between a ``FeedbackReader`` and the loop that reads the sequence.
///
/// The connection is not read while ``limit`` entries wait here. One socket read can exceed it by a
/// few thousand.
final class FeedbackBuffer: FeedbackOutput {
  static let limit = 16_384

  private struct State {
    var tuples: [FeedbackTuple] = []
    var nextTuple = 0
    var ending: Result<Int, CarillonError>?

    var count: Int { tuples.count - nextTuple }
  }

  enum Taken {
    /// - hasRoom: half of the buffer has become free just now.
    case tuple(FeedbackTuple, hasRoom: Bool)
    case ending(Result<Int, CarillonError>)
    case nothing
  }

  private let state = Mutex(State())
  private let signal = ReaderSignal()

  var isFull: Bool { state.withLock { $0.count >= Self.limit } }

  func write(_ tuple: FeedbackTuple) -> String? {
    state.withLock { $0.tuples.append(tuple) }
    return nil
  }

  /// All entries of one read are there.
  func synchronise() -> String? {
    signal.set()
    return nil
  }

  /// No more entries come.
  func finish(_ ending: Result<Int, CarillonError>) {
    state.withLock { $0.ending = ending }
    signal.set()
  }

  func take() -> Taken {
    state.withLock { state in
      guard state.count > 0 else { return state.ending.map(Taken.ending) ?? .nothing }
      let tuple = state.tuples[state.nextTuple]
      state.nextTuple += 1
      guard state.nextTuple == Self.limit / 2 || state.count == 0 else { return .tuple(tuple, hasRoom: false) }
      state.tuples.removeFirst(state.nextTuple)
      state.nextTuple = 0
      return .tuple(tuple, hasRoom: state.count < Self.limit)
    }
  }

  /// Returns when there may be something to take, or the task is cancelled.
  func wait() async {
    await withTaskCancellationHandler {
      await signal.wait()
    } onCancel: {
      signal.set()
    }
  }
}
