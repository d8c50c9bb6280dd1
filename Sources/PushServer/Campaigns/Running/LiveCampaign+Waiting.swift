internal import PushEngine
internal import PushStore

extension LiveCampaign {
  /// Returns when there is a signal, after the duration, or when the task is cancelled.
  func wait(atMost duration: Duration) async {
    await withDiscardingTaskGroup { tasks in
      tasks.addTask {
        do {
          try await Task.sleep(for: duration)
          self.signal.set()
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
}
