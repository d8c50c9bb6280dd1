internal import NIOCore
internal import NIOPosix
package import PushEngine
package import PushStore
internal import PushTransport
package import PushWire

/// What a service knows of time, so that the seeded simulation runs the same code.
package protocol ServiceClock: Sendable {
  /// The time of day. An operator can set it.
  var now: StoreInstant { get }
  /// Time that only grows.
  var uptime: Instant { get }
  /// - Throws: `CancellationError` as soon as the task is cancelled.
  func sleep(for duration: Duration) async throws
  /// Runs what may block, apart from the threads of tasks: those are few.
  func run(_ work: @escaping @Sendable () -> Void)
}

extension ServiceClock {
  /// Returns when there is a signal, after the duration, or when the task is cancelled.
  package func sleep(for duration: Duration, orUntil signal: ReaderSignal) async {
    await withDiscardingTaskGroup { tasks in
      tasks.addTask {
        do {
          try await sleep(for: duration)
          signal.set()
        } catch {
          // There was a signal before.
        }
      }
      await withTaskCancellationHandler {
        await signal.wait()
      } onCancel: {
        signal.set()
      }
      tasks.cancelAll()
    }
  }

  /// Calls the store again each second while it is away: for what must be in it because of what was
  /// done already.
  ///
  /// - Parameter failureLimit: how often it may fail for another reason.
  package func waiting<Result: Sendable>(
    failureLimit: Int = 0, _ body: () async throws(StoreError) -> Result
  ) async throws -> Result {
    var failureCount = 0
    while true {
      do throws(StoreError) { return try await body() } catch {
        if error.kind != .away { failureCount += 1 }
        guard failureCount <= failureLimit else { throw error }
        try await sleep(for: .seconds(1))
      }
    }
  }

  /// Calls the store again each second until it answers: that it is busy or away is no verdict.
  ///
  /// - Throws: `CancellationError` only.
  func retrying<Result: Sendable>(
    _ body: () async throws(StoreError) -> Result
  ) async throws(CancellationError) -> Result {
    while true {
      do throws(StoreError) { return try await body() } catch {
        do { try await sleep(for: .seconds(1)) } catch { throw CancellationError() }
      }
    }
  }
}

/// The clocks and threads of this machine.
package struct MachineClock: ServiceClock {
  package init() {}

  package var now: StoreInstant { StoreInstant(milliseconds: NIOLoop.wallClockMilliseconds) }
  package var uptime: Instant { Instant(nanoseconds: NIODeadline.now().uptimeNanoseconds) }
  package func sleep(for duration: Duration) async throws { try await Task.sleep(for: duration) }
  package func run(_ work: @escaping @Sendable () -> Void) { NIOThreadPool.singleton.submit { _ in work() } }
}
