package import PushEngine
package import PushTransport

/// Everything that an app needs to run: its rules, and how to reach its gateway with its
/// credential.
package struct AppPlan: Sendable {
  package var configuration: AppRules
  package var dialer: any Dialer

  package init(configuration: AppRules, dialer: any Dialer) {
    self.configuration = configuration
    self.dialer = dialer
  }
}

/// A fixed set of apps with an engine of their own, for one campaign or one load test. A
/// ``Deployment`` adds and removes apps while it runs.
package final class EngineHost: Sendable {
  /// The apps, by id.
  package let apps: [String: App]
  private let engine: RunningEngine

  /// - Parameters:
  ///   - plans: with different ids.
  ///   - threads: event loops, over which the apps' lanes are spread; one per core is right.
  ///   - seed: of the jitter of the apps' back-off.
  ///   - journal: shared by all of them; the caller closes it, after ``serve(_:)``.
  package init(_ plans: [AppPlan], threads: Int, seed: UInt64, journal: EngineJournal? = nil) {
    let engine = RunningEngine(threads: threads, journal: journal)
    let made = plans.enumerated().map { index, plan in
      (plan.configuration.id, engine.makeApp(plan, seed: seed &+ UInt64(index)))
    }
    apps = Dictionary(uniqueKeysWithValues: made)
    self.engine = engine
  }

  /// Serves the apps while `body` runs, then closes their connections and ends the threads.
  package func serve<Result: Sendable>(_ body: @Sendable () async throws -> Result) async rethrows -> Result {
    let result: Result
    do {
      result = try await withThrowingTaskGroup(of: Void.self) { tasks in
        for app in apps.values { tasks.addTask { await app.run() } }
        // An app runs until it is shut down, also when its task is cancelled.
        let result: Result
        do {
          result = try await body()
        } catch {
          for app in apps.values { await app.shutDown() }
          throw error
        }
        for app in apps.values { await app.shutDown() }
        return result
      }
    } catch {
      await engine.shutDown()
      throw error
    }
    await engine.shutDown()
    return result
  }
}
