internal import Carillon
internal import Logging
internal import NIOCore
internal import NIOPosix
internal import PushEngine
internal import PushService
internal import PushStore
internal import ServiceLifecycle

/// Reports to the service manager that the process works, as long as every part makes progress: the
/// event loops of the API and of the engine, the journal and the store.
struct Supervision: Service {
  let manager: ServiceManager?
  let deployment: Deployment
  let store: any Store
  let outcomes: OutcomeRecorder
  let logger: Logger
  var clock: any ServiceClock = MachineClock()
  /// The API's event loops.
  var loops = MultiThreadedEventLoopGroup.singleton

  /// Questions in the interval in which the manager wants to hear something.
  private static let questionCount = 4

  func run() async throws {
    guard let manager, let interval = manager.watchdogInterval else {
      try? await gracefulShutdown()
      return
    }
    let probe = ProgressProbe()
    let pause = interval / Self.questionCount
    await cancelWhenGracefulShutdown {
      await withDiscardingTaskGroup { tasks in
        tasks.addTask { await askStore(probe, every: pause) }
        while (try? await clock.sleep(for: pause)) != nil {
          let silent = probe.silent(for: pause, now: clock.uptime)
          if silent.isEmpty {
            manager.notify(.watchdog)
          } else {
            logger.error("no progress", metadata: ["of": "\(silent.joined(separator: ", "))"])
          }
          ask(probe)
        }
      }
    }
  }

  private func ask(_ probe: ProgressProbe) {
    deployment.answer(probe, now: clock.uptime)
    for (index, loop) in loops.makeIterator().enumerated() {
      probe.ask("event loop \(index) of the API", now: clock.uptime) { loop.execute($0) }
    }
  }

  private func askStore(_ probe: ProgressProbe, every pause: Duration) async {
    // Owed since the first question that the store could not answer.
    var answer: (@Sendable () -> Void)?
    while (try? await clock.sleep(for: pause)) != nil {
      probe.ask("the store", now: clock.uptime) { answer = $0 }
      // A failed journal is no part that is stuck: it is waited for until it can be written again.
      // Nor is a store that says that it is away.
      do {
        _ = try await store.keys()
        try await outcomes.makeDurableElsewhere(waits: false)
      } catch let error as StoreError where error.kind == .away {
      } catch let error as UnsyncedList where error.isAway {
      } catch { guard deployment.journalFailure != nil else { continue } }
      answer?()
    }
  }
}
