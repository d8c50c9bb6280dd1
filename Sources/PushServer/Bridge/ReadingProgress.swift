internal import PushWire

/// Whether a client still takes what is sent to it, however slowly.
struct ReadingProgress {
  struct State: Hashable {
    var writtenBlockCount = 0
    /// By the client's system.
    var unacknowledgedByteCount = 0
    /// All is written and acknowledged: the client is to close.
    var hasEnded = false
  }

  /// How long nothing may change.
  private let limit: Duration
  private var state = State()
  private var changedAt = Instant.start

  init(limit: Duration) { self.limit = limit }

  mutating func begin(now: Instant) { changedAt = now }

  /// - Parameter isBusy: the client waits for this side.
  mutating func isStalled(_ new: State, isBusy: Bool, now: Instant) -> Bool {
    if isBusy || new != state { (state, changedAt) = (new, now) }
    return now.since(changedAt) >= limit
  }
}
