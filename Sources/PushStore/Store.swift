/// What a deployment remembers besides its journal, as use cases: values in, values out.
///
/// Nothing here assumes SQLite. Identifiers that clients see (of keys, notifications, batches,
/// campaigns and devices) are made by the caller, so that two machines can make them without having
/// met. The store itself numbers what has an order: ``StoredDevice/key`` and
/// ``StoredGoneDevice/number``, the places in lists that are read page by page.
///
/// What is added again with the same identifier is there once, as it was: whoever lost an answer
/// makes the same call again.
///
/// One process owns the open campaigns and the runs of its journal at a time: see "What a store for
/// several machines has to add" in Decisions.
package protocol Store: Sendable {
  /// What a backup copies; nil: the database has a way of its own.
  var file: String? { get }
  /// Of changes that are durable and not yet where they belong, such as a write-ahead log; 0 if the
  /// database has no such thing, or keeps it elsewhere.
  var logByteCount: Int { get }
  func close() throws(StoreError)

  // MARK: Keys

  /// - Parameter creator: the key whose holder asks for it; nil: the operator, at the machine.
  /// - Returns: false if the creator was revoked, or the new key would reach further than it.
  func add(_ key: StoredKey, by creator: String?) async throws(StoreError) -> Bool
  /// Oldest first, revoked ones included.
  func keys() async throws(StoreError) -> [StoredKey]
  /// - Returns: false if there is none, or it was revoked before.
  func revokeKey(_ id: String, at instant: StoreInstant) async throws(StoreError) -> Bool
  /// When keys were last used.
  func noteUse(of keys: [String: StoreInstant]) async throws(StoreError)

  // MARK: Sessions
  //
  // Who is logged in to the dashboard.

  /// Also those that are over.
  func sessions() async throws(StoreError) -> [StoredSession]
  /// - Parameter others: the digests of those that end with this.
  func begin(_ session: StoredSession, ending others: [[UInt8]]) async throws(StoreError)
  func endSession(_ digest: [UInt8]) async throws(StoreError)

  // MARK: Events
  //
  // What was done with the service, and what it noticed.

  /// Adds them, and forgets the oldest ones of the same app and kind.
  ///
  /// - Parameter count: how many are kept of each app and kind.
  func add(_ events: [StoredEvent], keeping count: Int) async throws(StoreError)
  /// The newest first. Those that concern the service belong to nobody who has some apps only.
  ///
  /// - Parameter id: only older ones; nil: from the newest on.
  func events(of apps: AppReach, before id: StoredUUID?, limit: Int) async throws(StoreError) -> [StoredEvent]

  // MARK: Notifications
  //
  // Those that the service accepted, and their outcomes.

  /// Writes all of it, or nothing. Returns when it is durable; may be called on a thread that
  /// others wait for, so it does nothing else. After ``StoreError/Kind/away`` the same changes must
  /// be the next ones: they may be in the store.
  func write(_ changes: IntakeChanges) throws(StoreError)
  /// How often ``write(_:)`` has succeeded, over all processes of this machine. Counted in the same
  /// transaction.
  var writeCount: Int64 { get }
  func notification(_ id: StoredNotificationID) async throws(StoreError) -> StoredNotification
  func batch(_ id: StoredUUID) async throws(StoreError) -> StoredBatch?
  /// How many of the notifications have which outcome; the rest has none yet.
  func outcomes(of parts: [StoredLines]) async throws(StoreError) -> OutcomeCounts
  /// The next outcomes of an app, in the order in which the store got them, by whole groups. Groups
  /// that were forgotten are passed over.
  ///
  /// - Parameters:
  ///   - number: of the last outcome that is known; 0: from the beginning.
  ///   - limit: of outcomes; the last group may have more.
  func outcomeGroups(app: String, after number: Int64, limit: Int) async throws(StoreError) -> [OutcomeGroup]
  /// How far an app's outcomes have come, and their delivery.
  func outcomeProgress(app: String) async throws(StoreError) -> OutcomeProgress
  /// Receivers have acknowledged outcomes through these numbers, by app. A lower number than one
  /// that is known changes nothing.
  func noteDelivered(_ numbers: [String: Int64]) async throws(StoreError)
  /// What callers said of notifications.
  func labels(of parts: [StoredLines]) async throws(StoreError) -> NotificationLabels
  /// Devices that are gone, in the order in which they were found.
  ///
  /// - Parameter cursor: the last ``StoredGoneDevice/number`` that is known; 0 from the beginning.
  func goneDevices(app: String, after cursor: Int64, limit: Int) async throws(StoreError) -> [StoredGoneDevice]
  /// Ends every run that no journal continues: its process was killed before it could say so.
  func endRuns(except open: Set<StoredRunID>, at instant: StoreInstant) async throws(StoreError)
  /// Forgets runs that ended before an instant, batches without runs, and older outcomes, in
  /// several short turns.
  func forget(endedBefore instant: StoreInstant) async throws(StoreError)

  // MARK: Devices

  /// Registers one device. Concurrent calls share a commit.
  func register(_ device: DeviceRegistration, app: String) async throws(StoreError) -> RegisteredDevice
  /// How many devices to import at a time: each time is a commit.
  var importPortion: Int { get }
  /// So many portions at the same time are faster than one after the other.
  var concurrentImportCount: Int { get }
  /// Registers devices, in this order: all, or none. Tokens in their order are much faster.
  func importDevices(_ devices: [DeviceRegistration], app: String) async throws(StoreError) -> [RegisteredDevice]
  /// An import has ended. A database that chooses its plans by what it knows of the devices looks
  /// at them again if they are many more by now: it would do so only minutes later.
  func noteImport() async throws(StoreError)
  func device(token: [UInt8], app: String) async throws(StoreError) -> StoredDevice?
  func device(id: StoredUUID, app: String) async throws(StoreError) -> StoredDevice?
  /// Those that are there, by id.
  func devices(ids: [StoredUUID], app: String) async throws(StoreError) -> [StoredUUID: StoredDevice]
  /// The devices of users, of each the last that were registered as new ones, those first.
  ///
  /// - Parameter limit: of each user.
  func devices(
    ofUsers users: [String], app: String, limit: Int
  ) async throws(StoreError) -> [String: [StoredDevice]]
  /// Removes devices of a user, and that they were found gone.
  ///
  /// - Parameter limit: of devices, so that the turn stays short.
  /// - Returns: how many were there.
  func removeDevices(ofUser user: String, app: String, limit: Int) async throws(StoreError) -> Int
  /// - Returns: false if there is none.
  func removeDevice(token: [UInt8], app: String) async throws(StoreError) -> Bool
  /// A page of an app's devices, by ``StoredDevice/key``.
  ///
  /// - Parameters:
  ///   - tag: that they have. Nil: all devices.
  ///   - key: of the last device that is known; 0 from the beginning.
  func devices(app: String, tag: String?, after key: Int64, limit: Int) async throws(StoreError) -> [StoredDevice]

  /// Counts the next devices of an app. Those that come or change meanwhile may be left out.
  ///
  /// - Parameters:
  ///   - key: behind which it counts; 0 from the beginning.
  ///   - limit: of devices, so that a read stays short.
  ///   - first: from when on days are counted.
  func deviceCounts(
    app: String, after key: Int64, limit: Int, from first: StoreInstant
  ) async throws(StoreError) -> DeviceCounts

  /// What was forgotten is not in files any more either, as far as that is the store's to do. It
  /// fails while others read.
  func scrub() async throws(StoreError)

  // MARK: Live Activities

  /// Notes the token of an activity on a device. It has one of each activity, and a token belongs
  /// to one activity on one device: what was registered later counts. A device that gets another
  /// token keeps its activities.
  ///
  /// - Parameter limit: of devices that have the activity.
  func register(
    _ activity: StoredActivityToken, app: String, limit: Int
  ) async throws(StoreError) -> RegisteredActivity
  /// The tokens of an activity that were registered at an instant or later, in the order of the
  /// devices' tokens.
  ///
  /// - Parameter devices: only of these; nil: of all.
  func activityTokens(
    of activity: ActivityName, app: String, devices: [[UInt8]]?, since instant: StoreInstant
  ) async throws(StoreError) -> [StoredActivityToken]
  /// The tokens that devices have for activities.
  func activityTokens(ofDevices devices: [[UInt8]], app: String) async throws(StoreError) -> [StoredActivityToken]
  /// Forgets an activity as it was registered until an instant.
  ///
  /// - Parameter device: only on this one; nil: everywhere.
  /// - Returns: false if there was nothing to forget.
  @discardableResult
  func forgetActivity(
    _ activity: ActivityName, device: [UInt8]?, app: String, until instant: StoreInstant
  ) async throws(StoreError) -> Bool
  /// Forgets activities that devices showed before an instant, in several short turns.
  func forgetActivities(registeredBefore instant: StoreInstant) async throws(StoreError)

  // MARK: Audiences
  //
  // Devices as an audience. It is cut first: the keys of those who match are written down, some at
  // a time, up to the last key of the app when its campaign begins. Then devices are read by key.

  /// The key of the app's newest device; 0 without devices.
  func lastDeviceKey(app: String) async throws(StoreError) -> Int64
  /// The members of an audience among the next devices, also suppressed ones. How many devices it
  /// looks at is the store's choice, so that a read stays short.
  ///
  /// - Parameters:
  ///   - key: behind which it looks; 0 from the beginning.
  ///   - last: it looks no further.
  func audienceMembers(
    app: String, filter: AudienceFilter, after key: Int64, through last: Int64, withTimeZones: Bool
  ) async throws(StoreError) -> AudienceStretch
  /// Those of an app's devices with these keys that are there, in the order of the keys. A device
  /// that two have become is there under both keys while the app has an unfinished campaign.
  ///
  /// - Parameters:
  ///   - keys: ascending.
  ///   - activity: of which they have the token in place of their own. Devices without one are not
  ///     there.
  func audienceDevices(
    app: String, keys: [Int64], activity: ActivityName?
  ) async throws(StoreError) -> [AudienceDevice]
  /// Counts a campaign for those who are about to get it, unless their caps are reached. For whom
  /// it was counted before, they are not.
  ///
  /// - Returns: those who do not get it.
  func notAdmitted(_ request: AdmissionRequest) async throws(StoreError) -> Set<[UInt8]>
  func forgetAdmissions(of member: [UInt8], app: String) async throws(StoreError)
  /// - Parameter instant: members were given nothing since the day before it, or earlier.
  func forgetAdmissions(before instant: StoreInstant) async throws(StoreError)
  /// How many devices the audience has, suppressed ones included.
  func audienceCount(app: String, filter: AudienceFilter, through last: Int64) async throws(StoreError) -> Int

  // MARK: The server

  /// Nil: there is none.
  func databaseState() async throws(StoreError) -> DatabaseState?

  // MARK: Nodes
  //
  // The processes that share the store.

  /// Those that have ever joined; nil: only one process can use the store.
  func nodes() async throws(StoreError) -> [StoredNode]?
  /// What processes that live have told last of themselves, by incarnation:
  /// ``NodeFacts/status``.
  func nodeStatuses() async throws(StoreError) -> [Int64: [UInt8]]
  /// Makes the caller the only process of its node that is alive. It carries on what `former`
  /// carried.
  ///
  /// - Parameter former: an incarnation of the same node that has certainly ended.
  /// - Returns: the incarnation of the caller; nil if another one of the same name is alive.
  func join(_ node: String, replacing former: Int64?) async throws(StoreError) -> Int64?
  /// - Returns: the time by the store's clock; nil if another one has taken its place.
  func beat(of incarnation: Int64, telling facts: NodeFacts) async throws(StoreError) -> StoreInstant?
  /// Declares another one dead, as it was seen.
  ///
  /// - Returns: false if it has given a sign since.
  func fence(_ node: StoredNode) async throws(StoreError) -> Bool
  /// Makes the caller the one node that does what only one may do, if nobody alive is.
  ///
  /// - Returns: whether the caller is.
  func lead(_ incarnation: Int64) async throws(StoreError) -> Bool
  /// The caller leads no longer, if it did.
  func yield(_ incarnation: Int64) async throws(StoreError)
  func leave(_ incarnation: Int64) async throws(StoreError)
  /// Asks a living node to take nothing more, or to go on. Its next process begins without it.
  ///
  /// - Returns: false if no node of this name is alive.
  func setDraining(_ isDraining: Bool, node: String) async throws(StoreError) -> Bool
  /// Forgets a node that is not alive, and what was counted of it. What only its journal has is
  /// `unknown` from now on, unless a process with that journal goes on with it.
  ///
  /// - Returns: false if it is alive, or unknown.
  func forget(node: String) async throws(StoreError) -> Bool

  /// Who sends which members of campaigns. Nil: one process sends all of them.
  var ledger: (any Ledger)? { get }

  // MARK: Apps
  //
  // What operators have decided about them.

  /// The apps that are paused, and since when.
  func pausedApps() async throws(StoreError) -> [String: StoreInstant]
  /// The app is paused from now on. The first pause counts.
  func pause(app: String, at instant: StoreInstant) async throws(StoreError)
  func resume(app: String) async throws(StoreError)

  // MARK: Feedback
  //
  // When the feedback services of apps were read.

  /// When the list was last read to its end; nil: never.
  func lastFeedbackPoll(app: String) async throws(StoreError) -> StoreInstant?
  func noteFeedbackPoll(app: String, at instant: StoreInstant) async throws(StoreError)

  // MARK: Requests that callers may repeat

  /// Notes durably that a request begins, unless one with its key has begun before. Concurrent
  /// calls share a commit, here and below.
  ///
  /// - Parameter oldest: what began before this instant is forgotten.
  func begin(_ request: IdempotentRequest, oldest: StoreInstant) async throws(StoreError) -> IdempotentBeginning
  /// The request was carried out, with this answer.
  func finish(_ request: IdempotentRequest, _ answer: StoredAnswer) async throws(StoreError)
  /// The request was not carried out: its key is free again.
  func withdraw(_ request: IdempotentRequest) async throws(StoreError)
  /// Forgets what began before an instant. Takes several short turns.
  func forgetRequests(begunBefore instant: StoreInstant) async throws(StoreError)

  // MARK: Campaigns
  //
  // Uploaded audiences and lists are files; their notifications are in the journal.

  /// Adds a campaign, unless its app has so many that have not ended.
  ///
  /// - Returns: false if it has.
  func add(_ campaign: StoredCampaign, openLimit: Int) async throws(StoreError) -> Bool
  /// A campaign with its plan.
  func campaign(_ id: StoredUUID) async throws(StoreError) -> StoredCampaign?
  /// A campaign without its plan.
  func campaignHead(_ id: StoredUUID) async throws(StoreError) -> CampaignHead?
  /// The plan of a campaign alone.
  func plan(of id: StoredUUID) async throws(StoreError) -> [UInt8]?
  /// An app's campaigns, newest first.
  ///
  /// - Parameter cursor: those older than this one; nil: from the newest on.
  func campaigns(app: String, before cursor: StoredUUID?, limit: Int) async throws(StoreError) -> [CampaignHead]
  /// The newest of some apps.
  func latestCampaigns(of apps: AppReach, limit: Int) async throws(StoreError) -> [CampaignHead]
  /// Those of some apps that have not ended, the newest first.
  ///
  /// - Parameters:
  ///   - states: nil: any.
  ///   - limit: nil: all of them.
  func openCampaigns(of apps: AppReach, in states: [String]?, limit: Int?) async throws(StoreError) -> [CampaignHead]
  /// How many there are of these.
  func openCampaignCount(of apps: AppReach, in states: [String]) async throws(StoreError) -> Int
  /// Replaces what can change of a campaign: everything but its id, its app, when it was created,
  /// and how far it is cut.
  ///
  /// - Parameter version: the one that was read. The campaign gets the next one.
  /// - Returns: false if it was changed since.
  func update(_ campaign: StoredCampaign, from version: Int64) async throws(StoreError) -> Bool
  /// Sets how a campaign is divided. Parts that are there already stay as they are.
  func add(_ parts: [StoredCampaignPart], of campaign: StoredUUID) async throws(StoreError)
  /// The journal has a part of a campaign: nothing of it was sent before.
  func begin(part number: Int, of campaign: StoredUUID, at instant: StoreInstant) async throws(StoreError)
  /// Parts are to begin as if they never had.
  func renew(parts numbers: [Int], of campaign: StoredUUID) async throws(StoreError)
  /// In order, with whom they are for.
  func parts(of campaign: StoredUUID) async throws(StoreError) -> [StoredCampaignPart]
  /// How far the parts of campaigns are, in order; none for campaigns without parts.
  func progress(of campaigns: [StoredUUID]) async throws(StoreError) -> [StoredUUID: [CampaignPartProgress]]
  /// Writes final accounts. Returns when they are durable; may be called on a thread that others
  /// wait for, so it does nothing else.
  func end(_ parts: [EndedCampaignPart]) throws(StoreError)
  /// Deletes campaigns that ended before an instant, up to a limit, and returns them.
  func forgetCampaigns(endedBefore instant: StoreInstant, limit: Int) async throws(StoreError) -> [StoredUUID]
  /// Deletes and returns campaigns in some states, unchanged since an instant, up to a limit.
  func forgetCampaigns(
    in states: [String], unchangedSince instant: StoreInstant, limit: Int
  ) async throws(StoreError) -> [StoredUUID]
  /// Fixes more members of a campaign: those of its devices behind one key, up to another.
  ///
  /// - Returns: false if it is not cut up to `from`, so that nothing changes. Who has lost the
  ///   answer reads ``CampaignHead/cutKey`` and goes on behind it.
  func cut(
    _ campaign: StoredUUID, from key: Int64, through end: Int64, adding pieces: [MemberPiece]
  ) async throws(StoreError) -> Bool
  /// The campaign is not cut, and has no members.
  func removeMembers(of campaign: StoredUUID) async throws(StoreError)
  /// The next keys of a part's members behind a key, of one piece; empty if there are none so far.
  func members(of campaign: StoredUUID, part: Int, after key: Int64) async throws(StoreError) -> [Int64]
  /// Which parts have which of these keys. A key is in one part.
  func memberParts(of campaign: StoredUUID, keys: [Int64]) async throws(StoreError) -> [Int64: Int]
  /// How many members there are so far.
  func memberCount(of campaign: StoredUUID) async throws(StoreError) -> Int
  /// The bytes of an app's audiences that were uploaded.
  ///
  /// - Parameter other: a campaign that does not count.
  func audienceByteCount(app: String, besides other: StoredUUID) async throws(StoreError) -> Int64

  // MARK: The bridge
  //
  // What it has forwarded, for clients that may send it again, and how far feedback was handed out.

  /// Frames of connections that did not end in good order, youngest process last, with what became
  /// of each. Runs that ended before the instant are left out: all their answers are older.
  func forwardedFrames(since instant: StoreInstant) async throws(StoreError) -> [RememberedFrames]
  /// How often an app's clients sent something again that had been delivered, and when last.
  func alreadyDelivered(app: String) async throws(StoreError) -> (count: Int, last: StoreInstant?)
  /// Devices that are gone and not registered since, after what was handed out, as they were found.
  ///
  /// Each token once, as it was found last. So the last one must be the same for all pages.
  func undeliveredFeedback(
    app: String, after number: Int64, through last: Int64, limit: Int
  ) async throws(StoreError) -> [StoredGoneDevice]
  /// The number of the device that was found last; 0: there is none.
  func lastFeedback(app: String) async throws(StoreError) -> Int64
  /// The number of the last device that was handed out.
  func feedbackCursor(app: String) async throws(StoreError) -> Int64
  func setFeedbackCursor(app: String, to number: Int64) async throws(StoreError)
  /// Forgets frames of runs that ended before the instant.
  ///
  /// - Parameter life: of the bridge; nil: it does not run.
  func forgetForwarded(before instant: StoreInstant, life: BridgeLife?) async throws(StoreError)
  /// Nil: there was no bridge.
  func bridgeLife() async throws(StoreError) -> BridgeLife?
}

/// Milliseconds since 1970.
package struct StoreInstant: Hashable, Sendable, Comparable {
  package let milliseconds: Int64

  package init(milliseconds: Int64) { self.milliseconds = milliseconds }

  /// The beginning of a day in UTC.
  ///
  /// - Parameter day: since 1970.
  package init(day: Int64) { milliseconds = day * Self.millisecondsPerDay }

  /// Days since 1970, in UTC.
  package var day: Int64 { milliseconds / Self.millisecondsPerDay }

  package static let millisecondsPerDay: Int64 = 86_400_000

  package static func < (first: StoreInstant, second: StoreInstant) -> Bool { first.milliseconds < second.milliseconds }
}

/// The 128 bits of a UUID.
package struct StoredUUID: Hashable, Sendable {
  package let high: UInt64
  package let low: UInt64

  package init(high: UInt64, low: UInt64) { (self.high, self.low) = (high, low) }
}

/// What a database server says of itself.
package struct DatabaseState: Sendable {
  /// Standbys that get what is committed; nil: it does not tell this user.
  package var standbyCount: Int?
  /// Of these, those that commits wait for.
  package var synchronousStandbyCount: Int?
  /// Of the oldest open transaction in the database; nil: it does not tell this user.
  package var transactionAge: Duration?
  /// Rows of the store that are there, and that vacuum has not removed yet.
  package var (liveRowCount, deadRowCount): (Int, Int)

  package init(
    standbyCount: Int?, synchronousStandbyCount: Int?, transactionAge: Duration?, liveRowCount: Int, deadRowCount: Int
  ) {
    (self.standbyCount, self.synchronousStandbyCount) = (standbyCount, synchronousStandbyCount)
    (self.transactionAge, self.liveRowCount, self.deadRowCount) = (transactionAge, liveRowCount, deadRowCount)
  }
}

extension Store {
  package func databaseState() async throws(StoreError) -> DatabaseState? { nil }

  package func nodes() async throws(StoreError) -> [StoredNode]? { nil }
  package func nodeStatuses() async throws(StoreError) -> [Int64: [UInt8]] { [:] }
  package func join(_ node: String, replacing former: Int64?) async throws(StoreError) -> Int64? { 0 }
  package func beat(of incarnation: Int64, telling facts: NodeFacts) async throws(StoreError) -> StoreInstant? { nil }
  package func fence(_ node: StoredNode) async throws(StoreError) -> Bool { false }
  package func lead(_ incarnation: Int64) async throws(StoreError) -> Bool { true }
  package func yield(_ incarnation: Int64) async throws(StoreError) {}
  package func leave(_ incarnation: Int64) async throws(StoreError) {}
  package func setDraining(_ isDraining: Bool, node: String) async throws(StoreError) -> Bool { false }
  package func forget(node: String) async throws(StoreError) -> Bool { false }

  package var ledger: (any Ledger)? { nil }

  package func noteImport() async throws(StoreError) {}
  package var importPortion: Int { 1_000 }
  package var concurrentImportCount: Int { 1 }

  /// How far the parts of a campaign are, in order.
  package func progress(of campaign: StoredUUID) async throws(StoreError) -> [CampaignPartProgress] {
    try await progress(of: [campaign])[campaign] ?? []
  }
}

/// The store cannot do what was asked of it.
package struct StoreError: Error, Hashable, Sendable, CustomStringConvertible {
  package enum Kind: Hashable, Sendable {
    /// The disk is full.
    case full
    /// The disk cannot be written for another reason: an I/O error, a quota, a limit of file sizes.
    case unwritable
    /// It is busy, or cannot be reached, for now. That is no verdict: make the same call again.
    case away
    /// The file is no store, is damaged, or belongs to a newer version.
    case unusable
    case failed
  }

  package let kind: Kind
  package let path: String
  /// A clause, such as `the store store.db cannot be written: disk I/O error`.
  package let description: String

  package init(_ kind: Kind, path: String, _ description: String) {
    (self.kind, self.path, self.description) = (kind, path, description)
  }
}
