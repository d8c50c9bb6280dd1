/// Waits until a condition holds, for what sends no event to a test, such as another process.
///
/// A condition often asks a process of the test, which takes its time: the longer it has not held,
/// the rarer it is tried, so that many tests that wait leave the cores to those that work.
///
/// - Parameters:
///   - what: The condition in words, for the error.
///   - limit: Default 10 minutes, which only a hang can reach.
/// - Throws: ``TimedOut`` after the limit, and the errors of `condition`.
package func waitUntil(
  _ what: String, limit: Duration = .seconds(600), _ condition: () async throws -> Bool
) async throws {
  let began = ContinuousClock.now
  while try await !condition() {
    let elapsed = ContinuousClock.now - began
    guard elapsed < limit else { throw TimedOut(description: "not within \(limit): \(what)") }
    try await Task.sleep(for: min(max(.milliseconds(2), elapsed / 16), .milliseconds(100)))
  }
}

/// A condition that did not hold in time.
package struct TimedOut: Error, CustomStringConvertible {
  package let description: String
}
