internal import Logging
internal import PushTransport

extension PushApp {
  /// Reads the list of the app's feedback service to its end. Each entry is written to `output`
  /// before more is read, so that an entry which the service has forgotten is never lost.
  ///
  /// - Returns: the number of entries.
  /// - Throws: as a loop over ``feedback(from:)`` does.
  package func readFeedback(into output: any FeedbackOutput) async throws(CarillonError) -> Int {
    guard !entry.configuration.transport.isHTTP2 else {
      throw CarillonError(.configuration, "The app \"\(id)\" speaks HTTP/2, which has no feedback service.")
    }
    if let defect = entry.credential.defect { throw CarillonError(.credential, defect.reason) }
    let endpoint = entry.configuration.feedbackOrDefault
    let reader = FeedbackReader(
      dialer: entry.credential.dialer(to: endpoint), endpoint: endpoint, output: output)
    let logger = core.logger
    let result: Result<Int, CarillonError> = await withTaskCancellationHandler {
      do throws(CarillonError) {
        return .success(
          try await reader.run { logger.warning("feedback", metadata: ["app": "\(id)", "why": "\($0)"]) })
      } catch { return .failure(error) }
    } onCancel: {
      reader.cancel(DeploymentCore.hasEnded)
    }
    return try result.get()
  }
}
