internal import NIOCore
internal import Synchronization

/// Runs the tasks of connections on the event loops of these connections.
///
/// Otherwise each part of a request and of its answer crosses from the loop's thread to a thread of
/// the common pool and back, which costs more than all else that a small request needs.
final class LoopTaskExecutor: TaskExecutor {
  private let loop: any EventLoop

  init(_ loop: any EventLoop) { self.loop = loop }

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    loop.execute { [self] in unsafe job.runSynchronously(on: unsafe asUnownedTaskExecutor()) }
  }
}

/// The executors of all event loops that have connections.
final class LoopTaskExecutors: Sendable {
  private let known = Mutex<[ObjectIdentifier: LoopTaskExecutor]>([:])

  func executor(of loop: any EventLoop) -> LoopTaskExecutor {
    known.withLock { known in
      if let executor = known[ObjectIdentifier(loop)] { return executor }
      let executor = LoopTaskExecutor(loop)
      known[ObjectIdentifier(loop)] = executor
      return executor
    }
  }
}

/// For what takes longer than a small request: the shared event loop is free meanwhile.
func withCommonPool<Value>(_ body: () async throws -> Value) async rethrows -> Value {
  try await withTaskExecutorPreference(globalConcurrentExecutor, operation: body)
}
