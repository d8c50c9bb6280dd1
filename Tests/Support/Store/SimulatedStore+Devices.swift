package import PushStore

extension SimulatedStore {
  package func register(_ device: DeviceRegistration, app: String) async throws(StoreError) -> RegisteredDevice {
    try await call { contents throws(StoreError) in try contents.register(device, app: app) }
  }

  package func importDevices(
    _ devices: [DeviceRegistration], app: String
  ) async throws(StoreError) -> [RegisteredDevice] {
    try await call { contents throws(StoreError) in
      var next = contents
      var found: [RegisteredDevice] = []
      for device in devices { found.append(try next.register(device, app: app)) }
      contents = next
      return found
    }
  }

  package func device(token: [UInt8], app: String) async throws(StoreError) -> StoredDevice? {
    try await call { $0.devices[app]?.device(token: token) }
  }

  package func device(id: StoredUUID, app: String) async throws(StoreError) -> StoredDevice? {
    try await call { $0.devices[app]?.device(id: id) }
  }

  package func devices(ids: [StoredUUID], app: String) async throws(StoreError) -> [StoredUUID: StoredDevice] {
    try await call { contents in
      ids.reduce(into: [:]) { found, id in found[id] = contents.devices[app]?.device(id: id) }
    }
  }

  package func devices(
    ofUsers users: [String], app: String, limit: Int
  ) async throws(StoreError) -> [String: [StoredDevice]] {
    try await call { contents in
      let all = (contents.devices[app]?.all ?? []).reversed().filter { $0.userID.map(users.contains) ?? false }
      return Dictionary(grouping: all) { $0.userID ?? "" }.mapValues { Array($0.prefix(limit)) }
    }
  }

  package func removeDevices(ofUser user: String, app: String, limit: Int) async throws(StoreError) -> Int {
    try await call { contents in
      let some = (contents.devices[app]?.all ?? []).filter { $0.userID == user }.prefix(limit)
      for device in some {
        _ = contents.removeDevice(token: device.token, app: app)
        contents.gone.removeAll { $0.app == app && $0.token == device.token }
      }
      return some.count
    }
  }

  package func scrub() async throws(StoreError) {}

  package func removeDevice(token: [UInt8], app: String) async throws(StoreError) -> Bool {
    try await call { $0.removeDevice(token: token, app: app) }
  }

  package func devices(
    app: String, tag: String?, after key: Int64, limit: Int
  ) async throws(StoreError) -> [StoredDevice] {
    try await call { contents in
      let devices = contents.devices[app]?.devices(after: key, through: .max) ?? []
      return Array(devices.lazy.filter { tag.map($0.tags.contains) ?? true }.prefix(limit))
    }
  }

  package func deviceCounts(
    app: String, after key: Int64, limit: Int, from first: StoreInstant
  ) async throws(StoreError) -> DeviceCounts {
    try await call { contents in
      var counts = DeviceCounts()
      let devices = (contents.devices[app]?.devices(after: key, through: .max) ?? []).prefix(limit)
      for device in devices { counts.count(device, from: first) }
      if devices.count == limit { counts.end = devices.last?.key }
      return counts
    }
  }

  // MARK: Audiences

  /// Devices of one look.
  private static let stretch = 100

  package func lastDeviceKey(app: String) async throws(StoreError) -> Int64 {
    try await call { $0.devices[app]?.all.last?.key ?? 0 }
  }

  package func audienceMembers(
    app: String, filter: AudienceFilter, after key: Int64, through last: Int64, withTimeZones: Bool
  ) async throws(StoreError) -> AudienceStretch {
    try await call { contents in
      let devices = contents.devices[app]?.devices(after: key, through: last) ?? []
      let looked = devices.prefix(Self.stretch)
      let members = looked.filter { contents.isMember($0, filter, app, through: last) }.map { device in
        AudienceMember(key: device.key, timeZone: withTimeZones ? device.timeZone : nil)
      }
      return AudienceStretch(members, through: looked.count < devices.count ? looked.last?.key ?? last : last)
    }
  }

  package func audienceDevices(
    app: String, keys: [Int64], activity: ActivityName?
  ) async throws(StoreError) -> [AudienceDevice] {
    try await call { contents in
      guard let devices = contents.devices[app] else { return [] }
      let found = keys.compactMap(devices.audienceDevice)
      guard let activity else { return found }
      let tokens = contents.activityTokens(of: activity, app: app)
      return found.compactMap { device in
        guard let token = tokens[device.token] else { return nil }
        var device = device
        device.token = token
        return device
      }
    }
  }

  package func audienceCount(app: String, filter: AudienceFilter, through last: Int64) async throws(StoreError) -> Int {
    try await call { contents in
      contents.devices[app]?.devices(after: 0, through: last)
        .count { contents.isMember($0, filter, app, through: last) } ?? 0
    }
  }
}

extension StoreContents {
  fileprivate func isMember(
    _ device: StoredDevice, _ filter: AudienceFilter, _ app: String, through last: Int64
  ) -> Bool {
    guard matches(device, filter, app) else { return false }
    guard filter.isOncePerUser, let user = device.userID else { return true }
    return !(devices[app]?.devices(after: 0, through: last) ?? []).contains { other in
      other.userID == user && matches(other, filter, app)
        && (other.isSuppressed ? 0 : 1, other.key) > (device.isSuppressed ? 0 : 1, device.key)
    }
  }

  fileprivate func matches(_ device: StoredDevice, _ filter: AudienceFilter, _ app: String) -> Bool {
    guard filter.matches(device), let activity = filter.activity else { return filter.matches(device) }
    return activityTokens(of: activity, app: app)[device.token] != nil
  }
}

extension AudienceFilter {
  /// Apart from the activity.
  fileprivate func matches(_ device: StoredDevice) -> Bool {
    all.allSatisfy(device.tags.contains) && (any.isEmpty || any.contains(where: device.tags.contains))
      && !none.contains(where: device.tags.contains)
      && (languages.isEmpty
        || languages.contains { device.language == $0 || device.language?.hasPrefix($0 + "-") ?? false })
  }
}

/// The devices of an app.
package struct DeviceList: Sendable {
  /// In the order of their keys.
  package private(set) var all: [StoredDevice] = []
  private var keysByToken: [[UInt8]: Int64] = [:]
  private var keysByID: [StoredUUID: Int64] = [:]
  /// Of devices that became one during a campaign: the keys that are gone, with the one that stays.
  private var merges: [Int64: Int64] = [:]

  private func place(_ key: Int64) -> Int { all.place { $0.key < key } }

  private func device(key: Int64?) -> StoredDevice? {
    guard let key, case let place = place(key), place < all.count, all[place].key == key else { return nil }
    return all[place]
  }

  func device(token: [UInt8]) -> StoredDevice? { device(key: keysByToken[token]) }
  func device(id: StoredUUID) -> StoredDevice? { device(key: keysByID[id]) }

  func devices(after key: Int64, through last: Int64) -> ArraySlice<StoredDevice> {
    let (first, end) = (all.place { $0.key <= key }, all.place { $0.key <= last })
    return all[first..<max(first, end)]
  }

  func audienceDevice(_ key: Int64) -> AudienceDevice? {
    let present = merges[key] ?? key
    guard let device = device(key: present) else { return nil }
    var found = AudienceDevice(
      key: key, token: device.token, language: device.language, userID: device.userID,
      isSuppressed: device.isSuppressed)
    if !merges.isEmpty {
      let former = merges.filter { $0.value == present }.keys.sorted()
      found.otherKeys = ([present] + former).filter { $0 != key }
    }
    return found
  }

  mutating func insert(_ device: StoredDevice) {
    all.insert(device, at: place(device.key))
    (keysByToken[device.token], keysByID[device.id]) = (device.key, device.key)
  }

  mutating func remove(_ device: StoredDevice) {
    all.remove(at: place(device.key))
    (keysByToken[device.token], keysByID[device.id]) = (nil, nil)
  }

  mutating func suppress(token: [UInt8], at instant: StoreInstant) {
    guard let key = keysByToken[token], case let place = place(key) else { return }
    all[place].goneAt = max(all[place].goneAt ?? instant, instant)
  }

  /// - Parameter isNeeded: the app has an unfinished campaign, whose parts may have either key.
  mutating func merge(_ former: Int64, into kept: Int64, isNeeded: Bool) {
    guard isNeeded else { return merges = [:] }
    merges = merges.mapValues { $0 == former ? kept : $0 }
    merges[former] = kept
  }
}

extension StoreContents {
  /// A device that is known as it is.
  package mutating func insert(_ device: StoredDevice, app: String) {
    lastKey = max(lastKey, device.key)
    devices[app, default: DeviceList()].insert(device)
  }

  package mutating func removeDevice(token: [UInt8], app: String) -> Bool {
    activities.removeAll { $0.app == app && $0.token.device == token }
    guard let device = devices[app]?.device(token: token) else { return false }
    devices[app]?.remove(device)
    return true
  }

  mutating func register(_ entry: DeviceRegistration, app: String) throws(StoreError) -> RegisteredDevice {
    let present = devices[app]?.device(token: entry.token)
    let replaced = entry.replacedToken.flatMap { $0 == entry.token ? nil : devices[app]?.device(token: $0) }
    if let former = entry.replacedToken, former != entry.token {
      moveActivities(from: former, to: entry.token, app: app)
    }
    // The gone-since time belongs to the token, so it moves with it.
    let goneAt = present.map(\.goneAt) ?? goneAt(entry.token, app)
    guard var device = replaced ?? present else {
      guard !devices.values.contains(where: { $0.device(id: entry.newID) != nil }) else {
        throw .simulated(.failed, "another device has this identifier")
      }
      var device = StoredDevice(
        key: lastKey + 1, id: entry.newID, token: entry.token, language: nil, timeZone: nil, tags: [],
        createdAt: entry.registeredAt, registeredAt: entry.registeredAt, goneAt: goneAt)
      device.apply(entry)
      insert(device, app: app)
      return .created(device.id)
    }
    devices[app]?.remove(device)
    if let present, replaced != nil {
      devices[app]?.remove(present)
      let (former, kept) = (max(present.key, device.key), min(present.key, device.key))
      let isNeeded = campaigns.values.contains { $0.app == app && $0.lastKey != nil && $0.endedAt == nil }
      devices[app]?.merge(former, into: kept, isNeeded: isNeeded)
      device.key = kept
      device.registeredAt = max(device.registeredAt, present.registeredAt)
    }
    (device.token, device.goneAt) = (entry.token, goneAt)
    device.apply(entry)
    devices[app]?.insert(device)
    return .updated(device.id)
  }

  private func goneAt(_ token: [UInt8], _ app: String) -> StoreInstant? {
    gone.lazy.filter { $0.app == app && $0.token == token }.map { $0.since ?? $0.foundAt }.max()
  }

  mutating func note(_ found: StoredGoneDevice) {
    var found = found
    lastGone += 1
    found.number = lastGone
    gone.append(found)
    let at = found.since ?? found.foundAt
    devices[found.app]?.suppress(token: found.token, at: at)
    activities.removeAll { known in
      known.app == found.app && [known.token.token, known.token.device].contains(found.token)
        && known.token.registeredAt <= at
    }
  }
}

extension StoredDevice {
  fileprivate mutating func apply(_ entry: DeviceRegistration) {
    registeredAt = max(registeredAt, entry.registeredAt)
    if case .set(let value) = entry.language { language = value }
    if case .set(let value) = entry.timeZone { timeZone = value }
    if case .set(let value) = entry.tags { tags = value.sorted() }
    if case .set(let value) = entry.userID { userID = value }
  }
}

extension DeviceCounts {
  /// Adds one device.
  package mutating func count(_ device: StoredDevice, from first: StoreInstant) {
    if device.isSuppressed { gone += 1 } else { active += 1 }
    languages[device.language, default: 0] += 1
    for tag in device.tags { tags[tag, default: 0] += 1 }
    if device.createdAt >= first { days[device.createdAt.milliseconds / 86_400_000, default: Day()].new += 1 }
    if device.isSuppressed, let goneAt = device.goneAt, goneAt >= first {
      days[goneAt.milliseconds / 86_400_000, default: Day()].gone += 1
    }
  }
}
