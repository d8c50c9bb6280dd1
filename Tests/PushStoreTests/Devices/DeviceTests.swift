internal import PushStore
internal import PushStoreSQLite
internal import Support
internal import Testing

@Suite("Devices in the store")
struct DeviceTests {
  @Test("the store has what a simple model has, also after it was opened again", arguments: StoreKind.with(0..<30))
  func model(seed: UInt64, kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    var store = try place.open()
    var model = DeviceModel()
    var random = SeededGenerator(seed: seed)
    for step in 0..<150 {
      let app = DeviceModel.apps[random.chance(70) ? 0 : 1]
      // Some registrations are older than what is known.
      let instant = Int64(step * 10) - (random.chance(20) ? 300 : 0)
      switch Int.random(in: 0..<100, using: &random) {
      case ..<50:
        let entry = random.registration(at: instant)
        #expect(try await store.register(entry, app: app) == model.register(entry, app: app), "seed \(seed)")
      case ..<65:
        let entries = (0..<8).map { _ in random.registration(at: instant) }
        let expected = entries.map { model.register($0, app: app) }
        #expect(try await store.importDevices(entries, app: app) == expected, "seed \(seed)")
      case ..<80:
        let token = random.token()
        #expect(
          try await store.removeDevice(token: token, app: app) == model.remove(token: token, app: app), "seed \(seed)")
      default:
        var changes = IntakeChanges()
        let since = random.chance(70) ? StoreInstant(milliseconds: instant) : nil
        changes.gone = [
          StoredGoneDevice(
            app: app, token: random.token(), since: since, foundAt: StoreInstant(milliseconds: instant + 5))
        ]
        for device in changes.gone { model.noteGone(device) }
        try store.write(changes)
      }
    }
    try store.close()
    store = try place.open()
    for app in DeviceModel.apps { try await compare(store, model, app, &random) }
    try store.close()
  }

  @Test("a device can be removed after one was looked for in an app without devices", arguments: StoreKind.allCases)
  func removedFromNone(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    #expect(try await !store.removeDevice(token: [1], app: "news"))
    let device = DeviceRegistration(
      token: [1], newID: StoredUUID(high: 1, low: 1), registeredAt: StoreInstant(milliseconds: 1))
    _ = try await store.register(device, app: "news")
    #expect(try await store.removeDevice(token: [1], app: "news"))
    try store.close()
  }

  private func compare(
    _ store: any Store, _ model: DeviceModel, _ app: String, _ random: inout SeededGenerator
  ) async throws {
    let seed = random.seed
    for tag in [nil] + DeviceModel.tags.map(Optional.some) {
      var found: [StoredDevice] = []
      while true {
        let page = try await store.devices(app: app, tag: tag, after: found.last?.key ?? 0, limit: 4)
        found += page
        if page.count < 4 { break }
      }
      #expect(found.map(\.key) == found.map(\.key).sorted())
      for index in found.indices {
        #expect(try await store.device(token: found[index].token, app: app) == found[index], "seed \(seed)")
        #expect(try await store.device(id: found[index].id, app: app) == found[index], "seed \(seed)")
        found[index].key = 0
      }
      let expected = model.audience(app, AudienceFilter(all: tag.map { [$0] } ?? []))
      #expect(Set(found).symmetricDifference(expected).isEmpty, "seed \(seed)")
      #expect(found.count == expected.count, "seed \(seed)")
    }
    let last = try await store.lastDeviceKey(app: app)
    for _ in 0..<40 {
      let filter = random.filter()
      let found = try await store.audience(app, filter, through: last)
      let expected = model.audience(app, filter)
      #expect(Set(found.devices.map(\.token)) == Set(expected.map(\.token)), "seed \(seed), \(filter)")
      #expect(found.devices.count == expected.count, "seed \(seed), \(filter)")
      #expect(found.members.map(\.key) == found.devices.map(\.key).sorted(), "seed \(seed), \(filter)")
      for (member, device) in zip(found.members, found.devices) {
        let known = expected.first { $0.token == device.token }
        #expect(known?.language == device.language, "seed \(seed)")
        #expect(known?.timeZone == member.timeZone, "seed \(seed)")
        #expect(known?.isSuppressed == device.isSuppressed, "seed \(seed)")
      }
      #expect(try await store.audienceCount(app: app, filter: filter, through: last) == expected.count, "seed \(seed)")
    }
  }

  @Test(
    "a device that registers after the audience was fixed is not in it, also when keys became free",
    arguments: StoreKind.allCases)
  func laterDevices(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    func register(_ token: UInt8) async throws {
      _ = try await store.register(
        DeviceRegistration(
          token: [token], newID: StoredUUID(high: 1, low: UInt64(token)), registeredAt: StoreInstant(milliseconds: 1)),
        app: "news")
    }
    for token in 1...5 { try await register(UInt8(token)) }
    let last = try await store.lastDeviceKey(app: "news")
    #expect(try await store.removeDevice(token: [5], app: "news"))
    try await register(6)
    let found = try await store.audience("news", AudienceFilter(), through: last)
    #expect(found.devices.map(\.token) == [[1], [2], [3], [4]])
    #expect(try await store.lastDeviceKey(app: "chat") == 0)
    try store.close()
  }

  @Test(
    "a device whose token is replaced while its audience is read is read once, whichever was registered first",
    arguments: StoreKind.allCases)
  func replacedMeanwhile(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    func register(_ token: UInt8, replacing old: UInt8? = nil) async throws {
      var registration = DeviceRegistration(
        token: [token], replacedToken: old.map { [$0] }, newID: StoredUUID(high: UInt64(token), low: 1),
        registeredAt: StoreInstant(milliseconds: Int64(token)))
      if old == nil { registration.tags = .set(["t\(token)"]) }
      _ = try await store.register(registration, app: "news")
    }
    func tokens(after key: Int64, through last: Int64) async throws -> [UInt8] {
      try await store.audience("news", AudienceFilter(), after: key, through: last).devices.flatMap(\.token)
    }
    for token in 1...4 as ClosedRange<UInt8> { try await register(token) }
    let last = try await store.lastDeviceKey(app: "news")
    #expect(try await tokens(after: 0, through: 1) == [1])
    // It has got the notification as 1: not again as 1, with the place of 3.
    try await register(1, replacing: 3)
    #expect(try await tokens(after: 1, through: last) == [2, 4])
    // A device of the audience is not lost because it is one with a later device.
    try await register(9)
    try await register(2, replacing: 9)
    #expect(try await tokens(after: 1, through: last) == [2, 4])
    // It has the name and the tags of the token that it replaces.
    let merged = try #require(try await store.device(token: [2], app: "news"))
    #expect(merged.id == StoredUUID(high: 9, low: 1))
    #expect(merged.tags == ["t9"])
    #expect(try await store.devices(app: "news", tag: "t9", after: 0, limit: 9) == [merged])
    #expect(try await store.devices(app: "news", tag: "t2", after: 0, limit: 9).isEmpty)
    try store.close()
  }

  @Test(
    "a device that two have become is there under both keys while a campaign is unfinished, and not longer",
    arguments: StoreKind.allCases)
  func merged(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    func register(_ token: UInt8, replacing old: UInt8? = nil) async throws {
      _ = try await store.register(
        DeviceRegistration(
          token: [token], replacedToken: old.map { [$0] }, newID: StoredUUID(high: UInt64(token), low: 1),
          registeredAt: StoreInstant(milliseconds: 1)), app: "news")
    }
    func tokens(_ keys: [Int64]) async throws -> [UInt8] {
      let devices = try await store.audienceDevices(app: "news", keys: keys, activity: nil)
      #expect(Set(devices.map(\.key)).isSubset(of: keys))
      return devices.flatMap(\.token)
    }
    for token in 1...6 as ClosedRange<UInt8> { try await register(token) }
    try await register(1, replacing: 2)
    #expect(try await tokens([1, 2]) == [1], "there is no campaign")
    var campaign = StoredCampaign(
      id: StoredUUID(high: 1, low: 1), app: "news", state: "running", content: Array("{}".utf8),
      createdAt: StoreInstant(milliseconds: 1))
    #expect(try await store.add(campaign, openLimit: .max))
    campaign.lastKey = 6
    #expect(try await store.update(campaign, from: 1))
    try await register(4, replacing: 5)
    try await register(3, replacing: 4)
    #expect(try await tokens([3, 4, 5, 6]) == [3, 3, 3, 6])
    let others = try await store.audienceDevices(app: "news", keys: [1, 3, 4, 5, 6], activity: nil).map(\.otherKeys)
    #expect(others == [[], [4, 5], [3, 5], [3, 4], []])
    #expect(try await store.audienceDevices(app: "chat", keys: [3], activity: nil).isEmpty)
    #expect(try await store.removeDevice(token: [3], app: "news"))
    #expect(try await tokens([3, 4, 5]).isEmpty)
    campaign.version = 2
    campaign.endedAt = StoreInstant(milliseconds: 9)
    #expect(try await store.update(campaign, from: 2))
    try await register(1, replacing: 6)
    let left = try await store.audienceDevices(app: "news", keys: [1, 3, 4, 5, 6], activity: nil)
    #expect(left.map(\.key) == [1])
    #expect(left.map(\.otherKeys) == [[]])
    try store.close()
  }

  /// Lines of all kinds, many of each in a row, and some devices twice.
  private static func lines(_ app: UInt64) -> [DeviceRegistration] {
    (0..<5_200).map { index in
      let number = index < 5_000 ? index % 3_500 : index
      var line = DeviceRegistration(
        token: [UInt8(number >> 8), UInt8(number & 255)], newID: StoredUUID(high: app, low: UInt64(index)),
        registeredAt: StoreInstant(milliseconds: Int64(index)))
      if index < 1_200 || index > 4_000 { line.language = .set(index % 5 == 0 ? nil : "l\(index % 7)") }
      if index % 2_400 < 2_000 { line.tags = .set(Set((0..<index % 4).map { "t\(index % 11 + $0)" })) }
      if index < 2_500 { line.timeZone = .set("Europe/Berlin") }
      if index == 2_700 { line.replacedToken = [0, 9] }
      return line
    }
  }

  @Test("a large portion is the same as many small ones", arguments: StoreKind.allCases)
  func portions(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    var changes = IntakeChanges()
    changes.gone = ["news", "chat"].map {
      StoredGoneDevice(
        app: $0, token: [0, 5], since: StoreInstant(milliseconds: 9), foundAt: StoreInstant(milliseconds: 4))
    }
    try store.write(changes)
    let results = try await store.importDevices(Self.lines(1), app: "news")
    let lines = Self.lines(2)
    var others: [RegisteredDevice] = []
    for start in stride(from: 0, to: lines.count, by: 100) {
      others += try await store.importDevices(Array(lines[start..<start + 100]), app: "chat")
    }
    func described(_ results: [RegisteredDevice]) -> [String] {
      results.map { result in
        switch result {
        case .created(let id): "created \(id.low)"
        case .updated(let id): "updated \(id.low)"
        }
      }
    }
    #expect(described(results) == described(others))
    func devices(_ app: String) async throws -> [StoredDevice] {
      var found = try await store.devices(app: app, tag: nil, after: 0, limit: 10_000)
      found.sort { $0.token.lexicographicallyPrecedes($1.token) }
      return found.map { device in
        var device = device
        device.key = 0
        device.id = StoredUUID(high: 0, low: device.id.low)
        return device
      }
    }
    let found = try await devices("news")
    #expect(found.count == 3_700)
    #expect(found[5].goneAt == StoreInstant(milliseconds: 9))
    #expect(try await devices("chat") == found)
    try store.close()
  }

  @Test(
    "few matches among many devices are found, though each read looks at a part", arguments: StoreKind.allCases)
  func sparse(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    let count = 45_000
    for start in stride(from: 0, to: count, by: 1_000) {
      let entries = (start..<start + 1_000).map { index in
        var entry = DeviceRegistration(
          token: [UInt8(index >> 16), UInt8(index >> 8 & 255), UInt8(index & 255)],
          newID: StoredUUID(high: 7, low: UInt64(index)), registeredAt: StoreInstant(milliseconds: 1))
        entry.language = .set(index % 15_000 == 14_999 ? "fr" : "en")
        entry.tags = .set(["all"])
        return entry
      }
      _ = try await store.importDevices(entries, app: "news")
    }
    let filter = AudienceFilter(all: ["all"], languages: ["fr"])
    let found = try await store.audience("news", filter, through: .max)
    #expect(found.devices.map(\.language) == ["fr", "fr", "fr"])
    #expect(try await store.audienceCount(app: "news", filter: filter, through: .max) == 3)
    #expect(try await store.audienceCount(app: "news", filter: AudienceFilter(), through: .max) == count)
    try store.close()
  }
}

extension Store {
  /// An audience, a look after the other, with its devices.
  fileprivate func audience(
    _ app: String, _ filter: AudienceFilter, after key: Int64 = 0, through last: Int64
  ) async throws -> (members: [AudienceMember], devices: [AudienceDevice]) {
    var (members, key): ([AudienceMember], Int64) = ([], key)
    while key < last {
      let stretch = try await audienceMembers(
        app: app, filter: filter, after: key, through: last, withTimeZones: true)
      let plain = try await audienceMembers(
        app: app, filter: filter, after: key, through: last, withTimeZones: false)
      #expect(plain.members.map(\.key) == stretch.members.map(\.key))
      #expect(stretch.through > key)
      members += stretch.members
      key = stretch.through
    }
    return (members, try await audienceDevices(app: app, keys: members.map(\.key), activity: nil))
  }
}
