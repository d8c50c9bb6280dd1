internal import Hummingbird
internal import NIOCore
internal import NIOPosix
internal import Synchronization

/// Who has the next turn: keys in a circle, and each key's turns in their order. So a key with many
/// large bodies delays another one by a turn, not by its bodies.
struct TurnCircle<Turn> {
  private var freeCount: Int
  /// Keys that wait, the next one first.
  private var waiting: [(key: String, turns: [Turn])] = []

  /// - Parameter places: turns at the same time.
  init(places: Int) { freeCount = places }

  /// - Returns: whether the turn begins now. Otherwise ``end()`` returns it when it does.
  mutating func ask(_ turn: Turn, of key: String) -> Bool {
    if freeCount > 0 {
      freeCount -= 1
      return true
    }
    if let index = waiting.firstIndex(where: { $0.key == key }) {
      waiting[index].turns.append(turn)
    } else {
      waiting.append((key, [turn]))
    }
    return false
  }

  /// A turn has ended. Returns the one that begins now.
  mutating func end() -> Turn? {
    guard !waiting.isEmpty else {
      freeCount += 1
      return nil
    }
    var (key, turns) = waiting.removeFirst()
    let turn = turns.removeFirst()
    if !turns.isEmpty { waiting.append((key, turns)) }
    return turn
  }
}

/// Threads for reading large bodies: neither the event loops nor the common pool, which answer
/// others meanwhile, wait for them.
final class ParsingPool: TaskExecutor {
  static let shared = ParsingPool(threadCount: max(1, System.coreCount / 2))

  private let threads: NIOThreadPool
  private let circle: Mutex<TurnCircle<CheckedContinuation<Void, Never>>>

  private init(threadCount: Int) {
    threads = NIOThreadPool(numberOfThreads: threadCount)
    threads.start()
    circle = Mutex(TurnCircle(places: threadCount))
  }

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    threads.submit { [self] _ in unsafe job.runSynchronously(on: unsafe asUnownedTaskExecutor()) }
  }

  /// Runs a part of a key's work in its turn.
  func turn<Value>(of key: String, _ body: () throws -> Value) async rethrows -> Value {
    await withCheckedContinuation { turn in
      if circle.withLock({ $0.ask(turn, of: key) }) { turn.resume() }
    }
    defer { circle.withLock { $0.end() }?.resume() }
    return try body()
  }
}

/// For what reads a large body. Turns of ``ParsingPool`` divide it.
func withParsingPool<Value>(_ body: () async throws -> Value) async rethrows -> Value {
  try await withTaskExecutorPreference(ParsingPool.shared, operation: body)
}

/// Serves later addresses away from the event loops: they may read files, or make long answers.
struct CommonPool: RouterMiddleware {
  typealias Context = ControlContext

  func handle(
    _ request: Request, context: ControlContext, next: (Request, ControlContext) async throws -> Response
  ) async throws -> Response { try await withCommonPool { try await next(request, context) } }
}
