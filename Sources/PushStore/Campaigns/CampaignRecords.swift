/// The campaigns of the service. Their audiences and lists are files; their notifications are in
/// the journal.
package protocol CampaignRecords: Sendable {
  func add(_ campaign: StoredCampaign) async throws(StoreError)
  func campaign(_ id: StoredUUID) async throws(StoreError) -> StoredCampaign?
  /// An app's campaigns, newest first.
  ///
  /// - Parameter cursor: those older than this one; nil: from the newest on.
  func campaigns(app: String, before cursor: StoredUUID?, limit: Int) async throws(StoreError) -> [StoredCampaign]
  /// The newest of all apps.
  func latestCampaigns(limit: Int) async throws(StoreError) -> [StoredCampaign]
  /// Those of all apps that have not ended.
  func openCampaigns() async throws(StoreError) -> [StoredCampaign]
  /// Replaces what can change of a campaign: everything but its id, app and time of creation.
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
  /// In order.
  func parts(of campaign: StoredUUID) async throws(StoreError) -> [StoredCampaignPart]
  /// Writes final accounts. Returns when they are durable; may be called on a thread that others
  /// wait for, so it does nothing else.
  func end(_ parts: [EndedCampaignPart]) throws(StoreError)
  /// Deletes campaigns that ended before an instant, up to a limit, and returns them.
  func forgetCampaigns(endedBefore instant: StoreInstant, limit: Int) async throws(StoreError) -> [StoredUUID]
  /// Deletes campaigns in some states that were not changed since an instant, up to a limit, and
  /// returns them.
  func forgetCampaigns(
    in states: [String], unchangedSince instant: StoreInstant, limit: Int
  ) async throws(StoreError) -> [StoredUUID]
  /// The bytes of an app's audiences that were uploaded.
  ///
  /// - Parameter other: a campaign that does not count.
  func audienceByteCount(app: String, besides other: StoredUUID) async throws(StoreError) -> Int64
}

/// A campaign as it is kept.
package struct StoredCampaign: Hashable, Sendable {
  package let id: StoredUUID
  package let app: String
  package var state: String
  /// Grows with every change, from 1.
  package var version: Int64 = 1
  /// What was asked for, as JSON.
  package var content: [UInt8]
  /// Why it is in its state, if there is something to say.
  package var reason = ""
  /// An operator must say whether it continues.
  package var isDoubtful = false
  package var upload = StoredUpload()
  package let createdAt: StoreInstant
  /// By a person, or by its driver.
  package var changedAt: StoreInstant
  package var startedAt: StoreInstant?
  /// Its account is final since then.
  package var endedAt: StoreInstant?
  /// The last device of the audience, if that consists of devices.
  package var lastKey: Int64?

  package init(id: StoredUUID, app: String, state: String, content: [UInt8], createdAt: StoreInstant) {
    self.id = id
    self.app = app
    self.state = state
    self.content = content
    self.createdAt = createdAt
    changedAt = createdAt
  }
}

/// How much of an audience was uploaded.
package struct StoredUpload: Hashable, Sendable {
  package var lineCount: Int64 = 0
  /// The size of the file that it went to.
  package var byteCount: Int64 = 0
  package var isComplete = false
  /// Empty before anything was uploaded.
  package var format = ""

  package init() {}
}

/// A part of a campaign that is sent at one time.
package struct StoredCampaignPart: Hashable, Sendable {
  /// The part's number, from 0.
  package let number: Int
  package let dueAt: StoreInstant
  /// Whom it is for, as JSON.
  package let content: [UInt8]
  /// The journal has had it since then; nil: nothing of it was sent.
  package var begunAt: StoreInstant?
  /// Its final account, as JSON; nil before it has ended.
  package var account: [UInt8]?
  package var endedAt: StoreInstant?

  package init(number: Int, dueAt: StoreInstant, content: [UInt8]) {
    self.number = number
    self.dueAt = dueAt
    self.content = content
  }
}

/// The final account of a part.
package struct EndedCampaignPart: Sendable {
  package let campaign: StoredUUID
  package let number: Int
  package let account: [UInt8]
  package let endedAt: StoreInstant

  package init(campaign: StoredUUID, number: Int, account: [UInt8], endedAt: StoreInstant) {
    self.campaign = campaign
    self.number = number
    self.account = account
    self.endedAt = endedAt
  }
}
