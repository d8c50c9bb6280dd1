internal import Carillon
package import PushEngine
internal import PushWire

/// How far one app is, and what keeps it from progress.
package struct AppProgress: Hashable, Sendable {
  package var id: String
  package var settled: Int
  /// Taken in, and without an outcome.
  package var inFlight: Int
  package var obstacle: Obstacle?
}

/// Decides for which apps the display says why they make no progress. A value without a clock.
package struct ProgressWaits {
  package struct Wait: Hashable {
    package var app: String
    package var lasting: Duration
    /// Such as `news: waiting, 503 ServiceUnavailable since 12 s; next try in 4 s`.
    package var sentence: String
  }

  /// Shorter pauses are not worth a line.
  package static let threshold = Duration.seconds(5)

  /// By app: what was settled, and since when that has been all.
  private var lastChange: [String: (settled: Int, at: Duration)] = [:]

  package init() {}

  /// The apps that wait, in the order of the snapshot.
  package mutating func update(_ apps: [AppProgress], elapsed: Duration) -> [Wait] {
    apps.compactMap { app in
      let quietSince = quietSince(app, elapsed: elapsed)
      if let obstacle = app.obstacle, obstacle.lasting >= Self.threshold {
        return Wait(app: app.id, lasting: obstacle.lasting, sentence: "\(app.id): \(Self.words(obstacle))")
      }
      let lasting = elapsed - quietSince
      guard lasting >= Self.threshold else { return nil }
      let cause = app.obstacle.map(\.cause) ?? "no answer"
      return Wait(app: app.id, lasting: lasting, sentence: "\(app.id): waiting, \(cause) since \(lasting.spoken)")
    }
  }

  /// An app with nothing in flight waits for its audience or its rate limit, which is no trouble.
  private mutating func quietSince(_ app: AppProgress, elapsed: Duration) -> Duration {
    if let last = lastChange[app.id], last.settled == app.settled, app.inFlight > 0 { return last.at }
    lastChange[app.id] = (app.settled, elapsed)
    return elapsed
  }

  private static func words(_ obstacle: Obstacle) -> String {
    if obstacle.isOwnLimit { return "held back, \(obstacle.cause)" }
    let next =
      switch obstacle.nextTryIn {
      case nil: ""
      case .some(let duration) where duration > .zero: "; next try in \(max(.seconds(1), duration).spoken)"
      case .some: "; trying again"
      }
    return "waiting, \(obstacle.cause) since \(obstacle.lasting.spoken)\(next)"
  }
}
