/// Waits until a condition holds, for what sends no event to a test, such as another process.
///
/// - Parameters:
///   - what: The condition in words, for the error.
///   - limit: Default 10 minutes, which only a hang can reach.
/// - Throws: ``TimedOut`` after the limit, and the errors of `condition`.
package func waitUntil(
  _ what: String, limit: Duration = .seconds(600), _ condition: () async throws -> Bool
) async throws {
  let deadline = ContinuousClock.now + limit
  while try await !condition() {
    guard ContinuousClock.now < deadline else { throw TimedOut(description: "not within \(limit): \(what)") }
    try await Task.sleep(for: .milliseconds(2))
  }
}

/// A condition that did not hold in time.
package struct TimedOut: Error, CustomStringConvertible {
  package let description: String
}
