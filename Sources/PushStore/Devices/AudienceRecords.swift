/// Devices as an audience, a page at a time.
///
/// Every read is short: a page takes several reads if few devices match. The devices of an audience
/// are fixed by the last key of the app when it starts (``lastDeviceKey(app:)``): later devices
/// have greater keys.
package protocol AudienceRecords: Sendable {
  /// The key of the app's newest device; 0 without devices.
  func lastDeviceKey(app: String) async throws(StoreError) -> Int64
  /// The next devices of an audience by key, suppressed ones included. Fewer than `limit` only at
  /// its end.
  ///
  /// - Parameters:
  ///   - key: of the last device of the page before; 0 from the beginning.
  ///   - last: the key of the last device that belongs to the audience.
  ///   - timeZone: nil: all of them; `.some(nil)`: only devices without a time zone.
  func audiencePage(
    app: String, filter: AudienceFilter, after key: Int64, through last: Int64, timeZone: String??, limit: Int
  ) async throws(StoreError) -> [AudienceDevice]
  /// Those of an app's devices with these keys that are there, in the order of the keys. A device
  /// that two have become is there under both keys while the app has an unfinished campaign.
  func audienceDevices(app: String, keys: [Int64]) async throws(StoreError) -> [AudienceDevice]
  /// How many devices the audience has, suppressed ones included.
  func audienceCount(app: String, filter: AudienceFilter, through last: Int64) async throws(StoreError) -> Int
  /// The time zones of the audience, with the number of devices in each. Nil: devices without one.
  func audienceTimeZones(
    app: String, filter: AudienceFilter, through last: Int64
  ) async throws(StoreError) -> [String?: Int]
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
    self.all = all
    self.any = any
    self.none = none
    self.languages = languages
  }
}

/// A device of an audience.
package struct AudienceDevice: Hashable, Sendable {
  package var key: Int64
  package var token: [UInt8]
  package var language: String?
  package var timeZone: String?
  /// Nothing must be sent to it.
  package var isSuppressed: Bool
  /// Of the devices that have become this one while the app had an unfinished campaign. Only
  /// ``AudienceRecords/audienceDevices(app:keys:)`` finds them.
  package var otherKeys: [Int64] = []

  package init(key: Int64, token: [UInt8], language: String?, timeZone: String?, isSuppressed: Bool) {
    self.key = key
    self.token = token
    self.language = language
    self.timeZone = timeZone
    self.isSuppressed = isSuppressed
  }
}
