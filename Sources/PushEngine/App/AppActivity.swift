/// What the lanes of an app do at a moment, for display.
package struct AppActivity: Hashable, Sendable {
  /// Connections that can carry notifications.
  package var openCount = 0
  /// Connections that are being opened.
  package var openingCount = 0
  /// Lanes without a connection.
  package var closedCount = 0
  /// Notifications without an outcome: in the lanes, and in reservoirs.
  package var inFlightCount = 0

  init(_ shared: AppShared) {
    for lane in shared.scheduler.lanes {
      switch lane.backlog.connection {
      case .open: openCount += 1
      case .opening: openingCount += 1
      case .closed: closedCount += 1
      }
    }
    inFlightCount = shared.campaigns.inFlightCount
  }
}
