internal import Hummingbird
internal import ServiceLifecycle

/// Serves HTTP until the service ends.
///
/// Answers that are under way then have a bounded time: a reader that takes nothing any more must
/// not keep the service from ending.
struct ControlListener: Service {
  let application: Application<ControlResponder>
  let channels: OpenChannels
  /// How long answers may take at the end.
  let drain: Duration

  func run() async throws {
    try await withThrowingTaskGroup(of: Void.self) { tasks in
      tasks.addTask {
        guard (try? await gracefulShutdown()) != nil, (try? await Task.sleep(for: drain)) != nil else { return }
        await channels.close()
      }
      try await application.run()
      tasks.cancelAll()
    }
  }
}
