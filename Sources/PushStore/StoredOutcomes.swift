/// Outcomes of an app that came at about the same time and are the same: a stretch of the list of
/// all its outcomes, in which each has a number, from 1.
package struct OutcomeGroup: Hashable, Sendable {
  /// What the notifications belong to.
  package enum Origin: Hashable, Sendable {
    /// Taken in one by one.
    ///
    /// - Parameter isBridge: by the bridge.
    case run(StoredRunID, isBridge: Bool)
    /// - Parameter seed: of their identifiers.
    case campaign(StoredUUID, seed: StoredUUID)
  }

  package var app: String
  package var origin: Origin
  /// Such as `accepted`, `rejected`, `expired`, `unknown`.
  package var state: String
  /// Such as `confirmed`, `quiet` or `410 Unregistered`. Empty if there is nothing to add.
  package var detail: String
  /// When the first of them came.
  package var at: StoreInstant
  package var count: Int
  /// The number of the last one; 0 before it is stored.
  package var last: Int64 = 0
  /// Which notifications: the store does not look into it.
  package var entries: [UInt8]

  package init(
    app: String, origin: Origin, state: String, detail: String, at: StoreInstant, count: Int, entries: [UInt8]
  ) {
    (self.app, self.origin, self.state, self.detail) = (app, origin, state, detail)
    (self.at, self.count, self.entries) = (at, count, entries)
  }
}

/// Of an app, by the numbers of outcomes; 0: none.
package struct OutcomeProgress: Hashable, Sendable {
  /// The last one that is stored.
  package var last: Int64
  /// The last one that its receiver has acknowledged.
  package var delivered: Int64

  package init(last: Int64 = 0, delivered: Int64 = 0) { (self.last, self.delivered) = (last, delivered) }
}

/// Outcomes on their way to the store, in the order in which they came.
package struct OutcomeList: Sendable {
  private struct Kind: Hashable {
    var app: String
    var origin: OutcomeGroup.Origin
    var state: String
    var detail: String
  }

  package private(set) var groups: [OutcomeGroup] = []
  /// The last group of each kind.
  private var places: [Kind: Int] = [:]

  /// So late, and so large, a group gets no more.
  private static let (milliseconds, byteCount) = (Int64(100), 64 << 10)

  package init() {}

  package init(_ groups: [OutcomeGroup]) { self.groups = groups }

  package var isEmpty: Bool { groups.isEmpty }

  /// Adds outcomes, to a group that is there if they fit.
  package mutating func append(_ group: OutcomeGroup) {
    let kind = Kind(app: group.app, origin: group.origin, state: group.state, detail: group.detail)
    if let place = places[kind], group.at.milliseconds - groups[place].at.milliseconds < Self.milliseconds,
      groups[place].entries.count < Self.byteCount
    {
      groups[place].entries += group.entries
      groups[place].count += group.count
    } else {
      places[kind] = groups.count
      groups.append(group)
    }
  }

  package mutating func removeAll(of runs: Set<StoredRunID>) {
    groups.removeAll { if case .run(let run, _) = $0.origin { runs.contains(run) } else { false } }
    places = [:]
  }

  package mutating func append(_ later: OutcomeList) {
    groups += later.groups
    places = [:]
  }
}

/// What callers have said of notifications that were taken in one by one.
package struct NotificationLabels: Sendable {
  package var references: [StoredNotificationID: String] = [:]
  /// The batches in which they were handed over.
  package var batches: [(lines: StoredLines, batch: StoredUUID)] = []

  package init() {}
}
