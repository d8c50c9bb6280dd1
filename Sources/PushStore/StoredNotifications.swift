/// A run of notifications that share headers, as the intake numbers them.
package struct StoredRunID: Hashable, Sendable {
  package let high: UInt64
  package let low: UInt32

  package init(high: UInt64, low: UInt32) { (self.high, self.low) = (high, low) }
}

/// One notification: its run, and its line in it.
package struct StoredNotificationID: Hashable, Sendable {
  package let run: StoredRunID
  package let line: UInt32

  package init(run: StoredRunID, line: UInt32) { (self.run, self.line) = (run, line) }
}

/// Neighbouring lines of a run.
package struct StoredLines: Hashable, Sendable {
  package var run: StoredRunID
  package var lines: ClosedRange<UInt32>

  package init(run: StoredRunID, lines: ClosedRange<UInt32>) { (self.run, self.lines) = (run, lines) }
}

/// What the store knows of one notification that was accepted.
package struct StoredNotification: Hashable, Sendable {
  /// Nil: it has none, or the notification is not known.
  package var outcome: StoredOutcome?
  /// Another copy of it may have been sent.
  package var isDoubted = false
  /// What its caller wrote beside it.
  package var reference: String?
  /// The app of its run, while that goes on in a process that shares the store. Nil: no other
  /// process than the caller can know more of it.
  package var sharedApp: String?

  package init() {}
}

package struct StoredOutcome: Hashable, Sendable {
  /// Such as `accepted`, `rejected`, `expired`, `unknown`.
  package var state: String
  /// Such as `confirmed`, `quiet` or `410 Unregistered`. Empty if there is nothing to add.
  package var detail: String
  package var app: String

  package init(state: String, detail: String, app: String) {
    (self.state, self.detail, self.app) = (state, detail, app)
  }

  /// Of a notification that only the journal of a node has that was forgotten. It may be sent yet,
  /// if a service with that journal serves again.
  package static func withoutNode(app: String) -> StoredOutcome {
    StoredOutcome(state: "unknown", detail: "its node was forgotten", app: app)
  }
}

package struct OutcomeCounts: Hashable, Sendable {
  /// By how that is known: `confirmed` or `quiet`.
  package var accepted: [String: Int] = [:]
  /// The counts, by state, then by detail.
  package var others: [String: [String: Int]] = [:]
  /// Those of which a copy may have arrived, whatever their outcome.
  package var doubted = 0
  /// How many copies of them may have arrived.
  package var copies = 0

  package init() {}

  package mutating func add(_ count: Int, of outcome: StoredOutcome) {
    guard count > 0 else { return }
    others[outcome.state, default: [:]][outcome.detail, default: 0] += count
  }

  package var total: Int { accepted.values.reduce(0, +) + others.values.reduce(0) { $0 + $1.values.reduce(0, +) } }
}

/// The changes that the intake writes at one time.
package struct IntakeChanges: Sendable {
  package var began: [(run: StoredRunID, app: String, at: StoreInstant)] = []
  /// Neighbouring lines that were accepted.
  package var accepted: [(run: StoredRunID, lines: ClosedRange<UInt32>, confirmation: String)] = []
  package var notAccepted: [(notification: StoredNotificationID, state: String, detail: String)] = []
  /// Lines that may have arrived and were sent again, once each.
  package var doubted: [StoredLines] = []
  package var gone: [StoredGoneDevice] = []
  package var ended: [(run: StoredRunID, at: StoreInstant)] = []
  /// All outcomes, as clients read them one after the other.
  package var outcomes = OutcomeList()
  /// Of these, outcomes that audiences' readers have decided. They come first.
  package var passed = OutcomeList()
  package var bridge = BridgeChanges()
  /// What callers wrote beside notifications. The first time counts.
  package var references: [(notification: StoredNotificationID, text: String)] = []
  /// New batches, and further parts of those that are there.
  package var batches: [StoredBatch] = []
  /// Of notifications that nodes share.
  package var shared = SharedIntakeChanges()

  package init() {}

  package var isEmpty: Bool {
    began.isEmpty && accepted.isEmpty && notAccepted.isEmpty && doubted.isEmpty && gone.isEmpty && ended.isEmpty
      && bridge.isEmpty && outcomes.isEmpty && passed.isEmpty && references.isEmpty && batches.isEmpty
      && shared.isEmpty
  }

  /// Of it what must be durable before the journal's next record, with the runs that it needs: what
  /// the bridge has to write, and what is sent again as soon as the journal has that. Otherwise a
  /// crash could hide a copy. Also what must be durable before the journal knows that more of an
  /// audience was read.
  package var beforeJournal: IntakeChanges {
    var part = IntakeChanges()
    (part.began, part.doubted, part.bridge, part.passed) = (began, doubted, bridge, passed)
    (part.shared.blocks, part.shared.carriages, part.shared.copies) = (shared.blocks, shared.carriages, shared.copies)
    return part
  }

  /// Removes that from it, and returns it.
  package mutating func takeBeforeJournal() -> IntakeChanges {
    let part = beforeJournal
    (began, doubted, bridge, passed) = ([], [], BridgeChanges(), OutcomeList())
    (shared.blocks, shared.carriages, shared.copies) = ([], [], [])
    return part
  }

  /// Whether it has some of what must be durable before any record.
  package var precedesJournal: Bool {
    !bridge.isEmpty || !doubted.isEmpty || !shared.carriages.isEmpty || !shared.copies.isEmpty
  }

  package mutating func append(_ later: IntakeChanges) {
    began += later.began
    accepted += later.accepted
    notAccepted += later.notAccepted
    doubted += later.doubted
    gone += later.gone
    ended += later.ended
    outcomes.append(later.outcomes)
    passed.append(later.passed)
    bridge.append(later.bridge)
    references += later.references
    batches += later.batches
    shared.append(later.shared)
  }
}

/// A device that no longer has the app.
package struct StoredGoneDevice: Hashable, Sendable {
  /// Its place in the sequence of all of them, from 1; 0 before it is stored.
  package var number: Int64 = 0
  package var app: String
  package var token: [UInt8]
  /// When the service last found that, if it said so.
  package var since: StoreInstant?
  package var foundAt: StoreInstant

  package init(app: String, token: [UInt8], since: StoreInstant?, foundAt: StoreInstant) {
    (self.app, self.token, self.since, self.foundAt) = (app, token, since, foundAt)
  }
}

/// Notifications that were handed over in one request.
package struct StoredBatch: Hashable, Sendable {
  package var id: StoredUUID
  package var app: String
  package var parts: [StoredLines]
  /// Lines that never became a notification.
  package var rejectedCount: Int
  package var createdAt: StoreInstant

  package init(id: StoredUUID, app: String, parts: [StoredLines], rejectedCount: Int, createdAt: StoreInstant) {
    (self.id, self.app, self.parts, self.rejectedCount, self.createdAt) = (id, app, parts, rejectedCount, createdAt)
  }

  package var acceptedCount: Int { parts.reduce(0) { $0 + $1.lines.count } }
}
