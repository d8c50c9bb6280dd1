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

/// The apps of one process, and the event loops that serve them.
package final class EngineHost: Sendable {
  /// The apps, by id.
  package let apps: [String: App]
  private let group: LoopGroup
  private let journal: EngineJournal?

  /// - Parameters:
  ///   - plans: with different ids.
  ///   - threads: event loops, over which the apps' lanes are spread; one per core is right.
  ///   - seed: of the jitter of the apps' back-off.
  ///   - journal: shared by all of them; the caller closes it, after ``serve(_:)``.
  package init(_ plans: [AppPlan], threads: Int, seed: UInt64, journal: EngineJournal? = nil) {
    let group = LoopGroup(threads: threads)
    let budget = RingBudget()
    let made = plans.enumerated().map { index, plan in
      let app = App(
        configuration: plan.configuration, dialer: plan.dialer, loops: group.loops, firstLoop: index,
        seed: seed &+ UInt64(index), budget: budget, journal: journal)
      return (plan.configuration.id, app)
    }
    apps = Dictionary(uniqueKeysWithValues: made)
    self.group = group
    self.journal = journal
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
      await end()
      throw error
    }
    await end()
    return result
  }

  private func end() async {
    // Commit first: pending journal callbacks still need their loops. If the journal has failed,
    // all callbacks were called then.
    try? await journal?.makeDurable()
    await group.shutDown()
  }
}
