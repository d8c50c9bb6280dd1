internal import PushStore
internal import Support

/// What the store must answer about devices, kept in arrays.
struct DeviceModel {
  private(set) var devices: [String: [StoredDevice]] = [:]
  private(set) var gone: [(app: String, token: [UInt8], at: StoreInstant)] = []

  static let apps = ["news", "chat"]
  static let tags = ["a", "b", "c", "sport", "zürich"]
  static let languages = ["en", "en-GB", "de", "de-CH", "eng"]
  static let users = ["1", "Ada", "ada", "b@example.com"]
  static let timeZones = ["Europe/Berlin", "Asia/Tokyo"]

  mutating func register(_ entry: DeviceRegistration, app: String) -> RegisteredDevice {
    var list = devices[app, default: []]
    defer { devices[app] = list }
    let present = list.firstIndex { $0.token == entry.token }
    let replaced = entry.replacedToken.flatMap { token in list.firstIndex { $0.token == token } }
    let goneAt =
      present.map { list[$0].goneAt }
      ?? gone.filter { $0.app == app && $0.token == entry.token }.map(\.at).max()
    guard let index = replaced ?? present else {
      let tags: Set<String> = if case .set(let tags) = entry.tags { tags } else { [] }
      // Keys are not compared: only their order counts.
      list.append(
        StoredDevice(
          key: 0, id: entry.newID, token: entry.token, language: Self.value(entry.language, nil),
          timeZone: Self.value(entry.timeZone, nil), tags: tags.sorted(), createdAt: entry.registeredAt,
          registeredAt: entry.registeredAt, goneAt: goneAt, userID: Self.value(entry.userID, nil)))
      return .created(entry.newID)
    }
    var device = list[index]
    device.registeredAt = max(
      entry.registeredAt, device.registeredAt, present.map { list[$0].registeredAt } ?? device.registeredAt)
    device.token = entry.token
    device.goneAt = goneAt
    device.language = Self.value(entry.language, device.language)
    device.timeZone = Self.value(entry.timeZone, device.timeZone)
    device.userID = Self.value(entry.userID, device.userID)
    if case .set(let tags) = entry.tags { device.tags = tags.sorted() }
    // Of two devices that become one, the earlier place stays.
    list[min(index, present ?? index)] = device
    if let present, present != index { list.remove(at: max(index, present)) }
    return .updated(device.id)
  }

  private static func value(_ change: DeviceRegistration.Change<String?>, _ old: String?) -> String? {
    if case .set(let value) = change { value } else { old }
  }

  mutating func remove(token: [UInt8], app: String) -> Bool {
    guard let index = devices[app]?.firstIndex(where: { $0.token == token }) else { return false }
    devices[app]?.remove(at: index)
    return true
  }

  mutating func noteGone(_ device: StoredGoneDevice) {
    let at = device.since ?? device.foundAt
    gone.append((device.app, device.token, at))
    guard let index = devices[device.app]?.firstIndex(where: { $0.token == device.token }) else { return }
    let known = devices[device.app]?[index].goneAt
    devices[device.app]?[index].goneAt = max(known ?? at, at)
  }

  func audience(_ app: String, _ filter: AudienceFilter) -> [StoredDevice] {
    let all = devices[app, default: []].filter { device in
      let tags = Set(device.tags)
      guard tags.isSuperset(of: filter.all), tags.isDisjoint(with: filter.none) else { return false }
      guard filter.any.isEmpty || !tags.isDisjoint(with: filter.any) else { return false }
      return filter.languages.isEmpty
        || filter.languages.contains { device.language == $0 || device.language?.hasPrefix($0 + "-") == true }
    }
    guard filter.isOncePerUser else { return all }
    return all.enumerated().filter { place, device in
      guard let user = device.userID else { return true }
      let others = all.enumerated().filter { $1.userID == user && !$1.isSuppressed }
      let last = others.last ?? all.enumerated().last { $1.userID == user }
      return last?.offset == place
    }.map(\.element)
  }
}

extension SeededGenerator {
  mutating func token() -> [UInt8] { [UInt8.random(in: 0..<30, using: &self)] }

  mutating func some(of values: [String], percent: Int) -> [String] {
    values.filter { _ in chance(percent) }
  }

  mutating func registration(at instant: Int64) -> DeviceRegistration {
    var entry = DeviceRegistration(
      token: token(), replacedToken: chance(25) ? token() : nil, newID: StoredUUID(high: next(), low: next()),
      registeredAt: StoreInstant(milliseconds: instant))
    if chance(60) { entry.language = .set(chance(80) ? DeviceModel.languages.randomElement(using: &self) : nil) }
    if chance(60) { entry.timeZone = .set(chance(80) ? DeviceModel.timeZones.randomElement(using: &self) : nil) }
    if chance(60) { entry.userID = .set(chance(80) ? DeviceModel.users.randomElement(using: &self) : nil) }
    if chance(60) { entry.tags = .set(Set(some(of: DeviceModel.tags, percent: 40))) }
    return entry
  }

  mutating func filter() -> AudienceFilter {
    let names = DeviceModel.tags + ["unknown"]
    var filter = AudienceFilter(
      all: some(of: names, percent: 15), any: chance(40) ? some(of: names, percent: 40) : [],
      none: chance(40) ? some(of: names, percent: 20) : [],
      languages: chance(40) ? some(of: DeviceModel.languages, percent: 30) : [])
    filter.isOncePerUser = chance(40)
    return filter
  }
}
