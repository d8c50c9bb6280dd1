/// What those who follow a campaign have been told, and what they are told next. It has no clock.
struct CampaignEventLog: Sendable {
  /// How a campaign stands, as far as events tell.
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

  /// Progress is told twice a second at most.
  static let progressInterval = Duration.milliseconds(500)

  /// The events that tell how it stands now. What changed several times since is told once.
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
          // Told later.
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
