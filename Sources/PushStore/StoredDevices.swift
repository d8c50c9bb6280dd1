/// A device of an app, as it was last registered.
package struct StoredDevice: Hashable, Sendable {
  /// Its place in the order in which devices are listed; from 1. It stays when the token changes,
  /// and no later device gets it. Of two devices that become one, the lower one stays.
  package var key: Int64
  package var id: StoredUUID
  package var token: [UInt8]
  package var language: String?
  package var timeZone: String?
  /// Sorted, each once.
  package var tags: [String]
  package var createdAt: StoreInstant
  package var registeredAt: StoreInstant
  /// The latest instant at which the token was said to be gone.
  package var goneAt: StoreInstant?
  /// Whose it is, as the app calls its users.
  package var userID: String?

  /// The most devices of a user that are told at once: those that registered last as new ones.
  package static let userLimit = 100

  package init(
    key: Int64, id: StoredUUID, token: [UInt8], language: String?, timeZone: String?, tags: [String],
    createdAt: StoreInstant, registeredAt: StoreInstant, goneAt: StoreInstant?, userID: String? = nil
  ) {
    (self.key, self.id, self.token, self.language, self.timeZone) = (key, id, token, language, timeZone)
    (self.tags, self.createdAt, self.registeredAt, self.goneAt) = (tags, createdAt, registeredAt, goneAt)
    self.userID = userID
  }

  /// Nothing is sent to it: it has not registered since it was said to be gone.
  package var isSuppressed: Bool { goneAt.map { $0 >= registeredAt } ?? false }
}

package struct DeviceRegistration: Hashable, Sendable {
  /// What a registration says of a field.
  package enum Change<Value: Hashable & Sendable>: Hashable, Sendable {
    case keep
    case set(Value)
  }

  package var token: [UInt8]
  /// The device had this token before. Nothing happens if no device has it.
  package var replacedToken: [UInt8]?
  /// What the device is called, if it is new.
  package var newID: StoredUUID
  package var language: Change<String?> = .keep
  package var timeZone: Change<String?> = .keep
  /// Words without spaces.
  package var tags: Change<Set<String>> = .keep
  package var userID: Change<String?> = .keep
  /// A later instant that is known already stays.
  package var registeredAt: StoreInstant

  package init(token: [UInt8], replacedToken: [UInt8]? = nil, newID: StoredUUID, registeredAt: StoreInstant) {
    (self.token, self.replacedToken, self.newID, self.registeredAt) = (token, replacedToken, newID, registeredAt)
  }
}

package enum RegisteredDevice: Hashable, Sendable {
  case created(StoredUUID)
  case updated(StoredUUID)
}

/// Which devices belong to an audience. A device must satisfy all of it.
package struct AudienceFilter: Hashable, Sendable {
  /// Tags of which it has each.
  package var all: [String]
  /// Tags of which it has at least one. Empty: any device.
  package var any: [String]
  /// Tags of which it has none.
  package var none: [String]
  /// Ranges of languages as RFC 4647 has them: `en` matches `en` and `en-GB`. Empty: any device.
  package var languages: [String]
  /// Of which it has a token. Nil: any device.
  package var activity: ActivityName?
  /// Of the devices of a user that satisfy the rest, only the one that was registered last as a new
  /// one, and rather one that is not gone. Devices without a user are all in it.
  package var isOncePerUser = false

  package init(
    all: [String] = [], any: [String] = [], none: [String] = [], languages: [String] = [],
    activity: ActivityName? = nil
  ) {
    (self.all, self.any, self.none, self.languages) = (all, any, none, languages)
    self.activity = activity
  }
}

package struct AudienceDevice: Hashable, Sendable {
  package var key: Int64
  package var token: [UInt8]
  package var language: String?
  package var userID: String?
  /// Nothing must be sent to it.
  package var isSuppressed: Bool
  /// Of the devices that have become this one while the app had an unfinished campaign. Only
  /// ``Store/audienceDevices(app:keys:activity:)`` finds them.
  package var otherKeys: [Int64] = []

  package init(key: Int64, token: [UInt8], language: String?, userID: String? = nil, isSuppressed: Bool) {
    (self.key, self.token, self.language, self.userID) = (key, token, language, userID)
    self.isSuppressed = isSuppressed
  }
}

/// How many devices an app has, or some of them.
package struct DeviceCounts: Hashable, Sendable {
  /// Of which days devices are counted.
  package struct Day: Hashable, Sendable {
    /// Those that were first registered on it.
    package var new = 0
    /// Those that were found gone on it, and have not registered since.
    package var gone = 0

    package init() {}
  }

  package var active = 0
  /// Nothing is sent to them: see ``StoredDevice/isSuppressed``.
  package var gone = 0
  /// Active and gone ones by language; nil: those without one.
  package var languages: [String?: Int] = [:]
  /// Active and gone ones by tag.
  package var tags: [String: Int] = [:]
  /// By days since 1970, in UTC. Days without any are left out.
  package var days: [Int64: Day] = [:]
  /// The key behind which others follow; nil: all were counted.
  package var end: Int64?

  /// Of one app. Those that fewest devices have are left out.
  private static let tagLimit = 100_000

  package init() {}

  /// Those that follow.
  package mutating func add(_ others: DeviceCounts) {
    active += others.active
    gone += others.gone
    languages.merge(others.languages, uniquingKeysWith: +)
    tags.merge(others.tags, uniquingKeysWith: +)
    if tags.count > Self.tagLimit {
      let kept = tags.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.prefix(Self.tagLimit / 2)
      tags = Dictionary(kept.map { ($0.key, $0.value) }) { first, _ in first }
    }
    for (day, counts) in others.days {
      days[day, default: Day()].new += counts.new
      days[day, default: Day()].gone += counts.gone
    }
    end = others.end
  }
}
