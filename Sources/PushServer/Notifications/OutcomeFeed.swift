internal import PushService
internal import PushStore
internal import PushWire

/// The outcomes of an app as JSON, one after the other.
struct OutcomeFeed: Sendable {
  let store: any Store
  let recorder: OutcomeRecorder

  /// Outcomes as objects, each with a separator behind it.
  struct Page: Sendable {
    var bytes: [UInt8] = []
    var count = 0
    /// When the first of them, or of those with it, came; nil: there is none.
    var first: StoreInstant?
    /// The number of the last one; without outcomes that behind which they would be.
    var last: Int64

    /// An object with the outcomes, separated by commas, and where to go on.
    ///
    /// - Parameter start: its first members, each with a comma behind it.
    func object(_ start: String = "") -> [UInt8] {
      Array("{\(start)\"items\":[".utf8) + bytes.dropLast() + #"],"nextCursor":"\#(last)"}"#.utf8
    }
  }

  /// Whether somebody still listens is looked at so often.
  private static let pause = Duration.milliseconds(100)
  /// What comes within this time is told together.
  private static let gathering = Duration.milliseconds(10)
  /// Other nodes write outcomes, too.
  private static let lookInterval = Duration.seconds(1)

  /// The next outcomes.
  ///
  /// - Parameters:
  ///   - number: of the last one that is known; 0: from the beginning.
  ///   - separator: behind each.
  ///   - wait: if there are none, how long to wait for the first.
  func page(
    _ app: String, after number: Int64, limit: Int, separator: UInt8, wait: Duration, clock: any ServiceClock,
    while isOpen: () -> Bool = { true }
  ) async throws -> Page {
    let deadline = clock.uptime + wait
    return try await recorder.followers.following(app) { signal in
      while true {
        let known = recorder.listedCount(app)
        let page = try await page(app, after: number, limit: limit, separator: separator)
        guard page.count == 0, clock.uptime < deadline, isOpen() else { return page }
        let look = min(deadline, clock.uptime + Self.lookInterval)
        repeat {
          await clock.sleep(for: Self.pause, orUntil: signal)
          try Task.checkCancellation()
        } while recorder.listedCount(app) == known && clock.uptime < look && isOpen()
        try await clock.sleep(for: Self.gathering)
      }
    }
  }

  private func page(_ app: String, after number: Int64, limit: Int, separator: UInt8) async throws -> Page {
    let groups = try await store.outcomeGroups(app: app, after: number, limit: limit)
    let lines = try groups.flatMap { group throws(OutcomeEntries.Damage) in try group.lines }
    let labels = lines.isEmpty ? NotificationLabels() : try await store.labels(of: lines)
    var page = Page(first: groups.first?.at, last: number)
    for group in groups where page.count < limit {
      try OutcomeText(group, labels).write(to: &page, limit: limit, separator: separator)
    }
    return page
  }
}
