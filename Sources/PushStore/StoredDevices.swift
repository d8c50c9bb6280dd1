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

  package init(
    key: Int64, id: StoredUUID, token: [UInt8], language: String?, timeZone: String?, tags: [String],
    createdAt: StoreInstant, registeredAt: StoreInstant, goneAt: StoreInstant?
  ) {
    (self.key, self.id, self.token, self.language, self.timeZone) = (key, id, token, language, timeZone)
    (self.tags, self.createdAt, self.registeredAt, self.goneAt) = (tags, createdAt, registeredAt, goneAt)
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

/// Which devices belong to an audience. A device must satisfy all four.
package struct AudienceFilter: Hashable, Sendable {
  /// Tags of which it has each.
  package var all: [String]
  /// Tags of which it has at least one. Empty: any device.
  package var any: [String]
  /// Tags of which it has none.
  package var none: [String]
  /// Ranges of languages as RFC 4647 has them: `en` matches `en` and `en-GB`. Empty: any device.
  package var languages: [String]

  package init(all: [String] = [], any: [String] = [], none: [String] = [], languages: [String] = []) {
    (self.all, self.any, self.none, self.languages) = (all, any, none, languages)
  }
}

package struct AudienceDevice: Hashable, Sendable {
  package var key: Int64
  package var token: [UInt8]
  package var language: String?
  /// Nothing must be sent to it.
  package var isSuppressed: Bool
  /// Of the devices that have become this one while the app had an unfinished campaign. Only
  /// ``Store/audienceDevices(app:keys:)`` finds them.
  package var otherKeys: [Int64] = []

  package init(key: Int64, token: [UInt8], language: String?, isSuppressed: Bool) {
    (self.key, self.token, self.language, self.isSuppressed) = (key, token, language, isSuppressed)
  }
}
