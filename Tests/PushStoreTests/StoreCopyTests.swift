internal import PushStore
internal import PushStorePostgreSQL
internal import PushStoreSQLite
internal import Support
internal import Testing

/// A deployment that moves from a file into a database.
@Suite("Moving a store")
struct StoreCopyTests {
  private static func at(_ milliseconds: Int64) -> StoreInstant { StoreInstant(milliseconds: milliseconds) }

  private static func copy(_ path: String, to place: StorePlace, portion: Int = 7) throws -> [String: Int] {
    let reader = try SQLiteTableReader(path: path)
    let writer = try PostgreSQLTableWriter(try #require(place.database))
    for table in StoreTable.all {
      try reader.read(table, portion: portion) { rows throws(StoreError) in try writer.write(rows, to: table) }
    }
    let counts = try writer.finish(try reader.numbers())
    for table in StoreTable.all { #expect(try reader.count(of: table) == counts[table.name], "\(table.name)") }
    try writer.commit()
    try reader.close()
    return counts
  }

  /// What all use cases that read say.
  private static func readings(_ store: any Store) async throws -> [String] {
    var all: [String] = []
    func add(_ value: some Any) { all.append("\(value)") }
    add(
      try await store.keys().map { key in
        var apps: [String]?
        if case .only(let some) = key.reach { apps = some.sorted() }
        return "\(key.id) \(key.name) \(key.digest) \(key.scopes) \(apps as Any) \(key.createdAt) "
          + "\(key.lastUsedAt as Any) \(key.revokedAt as Any)"
      })
    add(try await store.events(of: .all, before: nil, limit: 9))
    for name in [ActivityName.shown("match"), .startable("match")] {
      add(try await store.activityTokens(of: name, app: "news", devices: nil, since: StoreInstant(milliseconds: 0)))
    }
    for line in 1...30 as ClosedRange<UInt32> {
      var known = try await store.notification(StoredNotificationID(run: StoreSteps.run, line: line))
      known.sharedApp = nil
      add(known)
    }
    let counts = try await store.outcomes(of: [StoredLines(run: StoreSteps.run, lines: 1...30)])
    add((counts.accepted, counts.doubted, counts.copies))
    add(counts.others.mapValues { $0.sorted { $0.key < $1.key } }.sorted { $0.key < $1.key })
    add(try await store.batch(StoredUUID(high: 2, low: 1)) as Any)
    for app in ["news", "chat"] {
      add(try await store.goneDevices(app: app, after: 0, limit: 100))
      for tag in [nil, "all", "t3", "other"] {
        add(try await store.devices(app: app, tag: tag, after: 0, limit: 1_000))
      }
      let last = try await store.lastDeviceKey(app: app)
      for filter in [AudienceFilter(), AudienceFilter(all: ["all"], none: ["t1"]), AudienceFilter(languages: ["de"])] {
        add(
          try await store.audienceMembers(app: app, filter: filter, after: 0, through: last, withTimeZones: true))
        add(try await store.audienceCount(app: app, filter: filter, through: last))
      }
      add(try await store.audienceDevices(app: app, keys: Array(1...200), activity: nil))
      add(try await store.lastFeedbackPoll(app: app) as Any)
      add(try await store.campaigns(app: app, before: nil, limit: 10))
      add(try await store.alreadyDelivered(app: app))
      add(try await store.undeliveredFeedback(app: app, after: 0, through: .max, limit: 10))
      add([try await store.lastFeedback(app: app), try await store.feedbackCursor(app: app)])
      add(try await store.outcomeGroups(app: app, after: 0, limit: .max))
      add(try await store.outcomeProgress(app: app))
    }
    add(try await store.pausedApps())
    let request = IdempotentRequest(caller: "key", key: "k", digest: [1], begunAt: at(1))
    add(try await store.begin(request, oldest: at(0)))
    let campaign = StoredUUID(high: 3, low: 1)
    add(try await store.campaign(campaign) as Any)
    add(try await store.parts(of: campaign))
    add(try await store.memberCount(of: campaign))
    add(try await store.members(of: campaign, part: 0, after: 0))
    add(try await store.forwardedFrames(since: at(0)))
    add(try await store.bridgeLife() as Any)
    return all
  }

  /// All that there can be: the steps before something is forgotten, and more.
  private static func fill(_ store: any Store) async throws {
    for step in StoreSteps.all.prefix(while: { $0.name != "end runs" }) { try await step.perform(store) }
    let creator = StoredKey(
      id: "b", name: "\"b\" ü", digest: [2, 0, 255], scopes: ["send", "admin"], reach: .only(["news", "chat"]),
      createdAt: at(2))
    #expect(try await store.add(creator, by: nil))
    let none = StoredKey(id: "c", name: "", digest: [], scopes: [], reach: .only([]), createdAt: at(3))
    #expect(try await store.add(none, by: nil))
    try await store.noteUse(of: ["b": at(99)])
    var device = DeviceRegistration(token: [9], newID: StoredUUID(high: .max, low: .max), registeredAt: at(7))
    device.language = .set("de")
    device.timeZone = .set("Europe/Berlin")
    device.tags = .set(["other"])
    device.userID = .set("ada")
    _ = try await store.register(device, app: "chat")
    // The last key is nobody's any more, and nobody else's.
    device = DeviceRegistration(token: [10], newID: StoredUUID(high: .max, low: 1), registeredAt: at(7))
    _ = try await store.register(device, app: "chat")
    #expect(try await store.removeDevice(token: [10], app: "chat"))
    var changes = IntakeChanges()
    changes.bridge.ended = [
      EndedConnection(connection: .max, from: nil, recentFrom: 4, at: at(8), lastSign: at(9))
    ]
    changes.bridge.addAlreadyDelivered(3, app: "news", at: at(8))
    try store.write(changes)
    try await store.forgetForwarded(before: at(0), life: BridgeLife(lastSign: at(50), pause: 60))
    var campaign = StoredCampaign(
      id: StoredUUID(high: 3, low: 2), app: "news", state: "running", content: Array("{}".utf8), createdAt: at(5))
    #expect(try await store.add(campaign, openLimit: 9))
    campaign.lastKey = 120
    #expect(try await store.update(campaign, from: 1))
    // Two devices that are one now.
    var merged = DeviceRegistration(token: [0, 20], newID: StoredUUID(high: 5, low: 5), registeredAt: at(10))
    merged.replacedToken = [0, 21]
    _ = try await store.register(merged, app: "news")
  }

  @Test("every use case reads the same from the copy")
  func copied() async throws {
    let (place, origin) = (try StorePlace(.postgreSQL), try StorePlace(.sqlite))
    let path = origin.folder.path("store.db")
    let store = try origin.open()
    try await Self.fill(store)
    let expected = try await Self.readings(store)
    #expect(throws: StoreError.self, "it is open") { try SQLiteTableReader(path: path) }
    try store.close()
    let counts = try Self.copy(path, to: place)
    for table in StoreTable.all { #expect(counts[table.name] ?? 0 > 0, "nothing of \(table.name) was tested") }
    let copy = try place.open()
    let found = try await Self.readings(copy)
    #expect(found.count == expected.count)
    for (one, other) in zip(found, expected) { #expect(one == other) }
    // Numbers go on behind those that were given out.
    let device = DeviceRegistration(token: [11], newID: StoredUUID(high: 4, low: 4), registeredAt: Self.at(9))
    _ = try await copy.register(device, app: "chat")
    let last = try await copy.lastDeviceKey(app: "chat")
    #expect(last == 126)
    var changes = IntakeChanges()
    changes.gone = [StoredGoneDevice(app: "news", token: [0, 9], since: nil, foundAt: Self.at(60))]
    changes.began = [(run: StoredRunID(high: 1, low: 1), app: "news", at: Self.at(60))]
    try copy.write(changes)
    #expect(try await copy.goneDevices(app: "news", after: 1, limit: 9).map(\.number) == [2])
    try copy.close()
  }

  @Test("a database with data is left alone, and what is not committed is not there")
  func refused() async throws {
    let (place, origin) = (try StorePlace(.postgreSQL), try StorePlace(.sqlite))
    let path = origin.folder.path("store.db")
    let store = try origin.open()
    try await store.pause(app: "news", at: Self.at(1))
    try store.close()
    let database = try #require(place.database)
    do {
      let reader = try SQLiteTableReader(path: path)
      let writer = try PostgreSQLTableWriter(database)
      for table in StoreTable.all {
        try reader.read(table, portion: 7) { rows throws(StoreError) in try writer.write(rows, to: table) }
      }
      #expect(try writer.finish(try reader.numbers())["app_states"] == 1)
      try reader.close()
    }
    _ = try Self.copy(path, to: place)
    let refusal = #expect(throws: StoreError.self) { try PostgreSQLTableWriter(database) }
    #expect(refusal?.description.contains("has data already, in app_states") == true)
    let copy = try place.open()
    #expect(try await copy.pausedApps() == ["news": Self.at(1)])
    #expect(try await copy.keys().isEmpty)
    let used = #expect(throws: StoreError.self) { try PostgreSQLTableWriter(database) }
    #expect(used?.description.contains("a service uses the database") == true)
    try copy.close()
  }
}
