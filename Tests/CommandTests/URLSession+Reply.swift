internal import Foundation
internal import FoundationNetworking

extension URLSession {
  /// The answer to a request, like `data(for:)`, but a cancelled task waits for it too.
  ///
  /// On Linux, `data(for:)` cancels the request inside the task's cancellation, and can wait there
  /// for ever for a queue that waits for the same task.
  func reply(to request: URLRequest) async throws -> (Data, URLResponse) {
    try await withCheckedThrowingContinuation { continuation in
      dataTask(with: request) { data, response, error in
        if error == nil, let response {
          continuation.resume(returning: (data ?? Data(), response))
        } else {
          continuation.resume(throwing: error ?? URLError(.unknown))
        }
      }.resume()
    }
  }
}
