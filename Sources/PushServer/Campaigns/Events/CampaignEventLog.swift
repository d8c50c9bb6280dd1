internal import PushService

/// Decides which events the followers of a campaign get next. A value without a clock.
struct CampaignEventLog: Sendable {
  /// The state of a campaign, as far as events show it.
  struct View: Hashable, Sendable {
    var state: CampaignState
    var reason: String
    /// Its numbers, as JSON.
    var progress: String
    /// Its account is final.
    var hasEnded: Bool
  }

  enum Event: String, Hashable, Sendable { case snapshot, progress, state, alarm, end }

  private var told: View?
  private var progressAt: Duration?
  private(set) var hasEnded = false

  static let progressInterval = Duration.milliseconds(500)

  /// The events that lead to the present state. What changed several times gets one event.
  ///
  /// - Parameter now: since any moment, the same for every call.
  mutating func events(_ view: View, now: Duration) -> [Event] {
    guard !hasEnded else { return [] }
    var events: [Event] = []
    var next = view
    defer { told = next }
    if let told {
      if view.progress != told.progress {
        if view.hasEnded || now - (progressAt ?? now) >= Self.progressInterval {
          events.append(.progress)
          progressAt = now
        } else {
          // Its event comes later.
          next.progress = told.progress
        }
      }
      if view.state != told.state || view.reason != told.reason { events.append(.state) }
    } else {
      events.append(.snapshot)
      progressAt = now
    }
    if [.held, .failed].contains(view.state), view.state != told?.state || view.reason != told?.reason {
      events.append(.alarm)
    }
    if view.hasEnded {
      hasEnded = true
      events.append(.end)
    }
    return events
  }
}
