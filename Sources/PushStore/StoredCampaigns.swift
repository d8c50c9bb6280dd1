/// A campaign without its plan: what lists, streams of events and pages show of it.
package struct CampaignHead: Hashable, Sendable {
  package let id: StoredUUID
  package let app: String
  package var state: String
  /// Grows with every change, from 1.
  package var version: Int64 = 1
  /// What its plan says, as far as it is shown without it.
  package var summary = CampaignSummary()
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
  /// Devices up to this key are fixed as members, or as none. Only
  /// ``Store/cut(_:from:through:adding:)`` changes it.
  package var cutKey: Int64 = 0
  /// How many devices or rows it is for; nil: not counted.
  package var audienceCount: Int64?
  /// The size of the plan; 0: of a campaign that is not stored yet.
  package var planByteCount = 0

  package init(id: StoredUUID, app: String, state: String, createdAt: StoreInstant, changedAt: StoreInstant) {
    (self.id, self.app, self.state, self.createdAt, self.changedAt) = (id, app, state, createdAt, changedAt)
  }

  /// All members are fixed.
  package var isCut: Bool { lastKey.map { cutKey >= $0 } ?? false }
}

/// What a campaign's plan says, for lists. The plan alone decides what is sent.
package struct CampaignSummary: Hashable, Sendable {
  package var name = ""
  /// Its audience are stored devices.
  package var isForDevices = false
  package var isDryRun = false
  /// When it begins by itself; of a local send, in the first time zone of the world.
  package var beginsAt: StoreInstant?
  /// Of a local send: when it begins in the last time zone of the world.
  package var lastBeginsAt: StoreInstant?

  package init() {}
}

/// A campaign as it is kept.
@dynamicMemberLookup
package struct StoredCampaign: Hashable, Sendable {
  package var head: CampaignHead
  /// The plan: what was asked for, as JSON.
  package var content: [UInt8]

  package init(id: StoredUUID, app: String, state: String, content: [UInt8], createdAt: StoreInstant) {
    head = CampaignHead(id: id, app: app, state: state, createdAt: createdAt, changedAt: createdAt)
    head.planByteCount = content.count
    self.content = content
  }

  package init(head: CampaignHead, content: [UInt8]) { (self.head, self.content) = (head, content) }

  package subscript<Value>(dynamicMember path: KeyPath<CampaignHead, Value>) -> Value { head[keyPath: path] }

  package subscript<Value>(dynamicMember path: WritableKeyPath<CampaignHead, Value>) -> Value {
    get { head[keyPath: path] }
    set { head[keyPath: path] = newValue }
  }
}

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
    (self.number, self.dueAt, self.content) = (number, dueAt, content)
  }
}

/// How far a part is, without whom it is for.
package struct CampaignPartProgress: Hashable, Sendable {
  package let number: Int
  package let dueAt: StoreInstant
  package var begunAt: StoreInstant?
  /// Its final account, as JSON; nil before it has ended.
  package var account: [UInt8]?
  package var endedAt: StoreInstant?

  package init(number: Int, dueAt: StoreInstant) { (self.number, self.dueAt) = (number, dueAt) }
}

package struct EndedCampaignPart: Sendable {
  package let campaign: StoredUUID
  package let number: Int
  package let account: [UInt8]
  package let endedAt: StoreInstant

  package init(campaign: StoredUUID, number: Int, account: [UInt8], endedAt: StoreInstant) {
    (self.campaign, self.number, self.account, self.endedAt) = (campaign, number, account, endedAt)
  }
}
