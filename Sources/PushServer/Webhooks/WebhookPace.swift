internal import PushWire

/// When the next delivery to a receiver is due, and how much it has.
struct WebhookPace: Sendable {
  /// Outcomes of a delivery. About 300 bytes each: receivers often take bodies up to 1 MB.
  static let limits = 10...1000
  /// Between deliveries that fail, also if the receiver asks for more.
  static let pauses = Duration.seconds(1) ... .seconds(300)

  /// Outcomes of the next delivery. Few as long as the receiver fails: so one that is away, or whom
  /// many are too much, costs little.
  private(set) var limit = limits.upperBound
  private var backoff: Backoff

  init(seed: UInt64) { backoff = Backoff(base: Self.pauses.lowerBound, limit: Self.pauses.upperBound, seed: seed) }

  mutating func succeeded() {
    backoff.succeeded()
    limit = min(limit * 10, Self.limits.upperBound)
  }

  /// - Parameter asked: what the receiver asked for.
  /// - Returns: how long to wait.
  mutating func failed(asked: Duration?) -> Duration {
    limit = Self.limits.lowerBound
    return max(backoff.failed(), min(asked ?? .zero, Self.pauses.upperBound))
  }
}
