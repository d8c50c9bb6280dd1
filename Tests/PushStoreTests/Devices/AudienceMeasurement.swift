internal import Foundation
internal import PushStore
internal import PushStorePostgreSQL
internal import Support
internal import Testing

private let deviceCount = ProcessInfo.processInfo.environment["CARILLON_DEVICES"].flatMap { Int($0) } ?? 0

/// How fast devices are imported and read as an audience. Runs only with a number of devices:
/// `CARILLON_DEVICES=1000000 CARILLON_ONLY=store swift test -c release -Xswiftc -enable-testing
/// --filter AudienceMeasurement`.
@Suite("Measurement of audiences", .enabled(if: deviceCount > 0))
struct AudienceMeasurement {
  @Test("devices by second", arguments: [StoreKind.sqlite, .postgreSQL])
  func measure(kind: StoreKind) async throws {
    let place = try StorePlace(kind)
    let store = try place.open()
    let clock = ContinuousClock()
    var random = SeededGenerator(seed: 1)
    let zones = ["Europe/Berlin", "Asia/Tokyo", "America/New_York", "Europe/London"]
    let imported = try await clock.measure {
      for start in stride(from: 0, to: deviceCount, by: 500) {
        let devices = (start..<min(deviceCount, start + 500)).map { number in
          var device = DeviceRegistration(
            token: random.bytes(32), newID: StoredUUID(high: 1, low: UInt64(number)),
            registeredAt: StoreInstant(milliseconds: 1))
          device.language = .set(number % 3 == 0 ? "de" : "en-GB")
          device.timeZone = .set(zones[number % 4])
          device.tags = .set(number % 2 == 0 ? ["all", "half"] : ["all"])
          device.userID = .set("user-\(number / 2)")
          return device
        }
        _ = try await store.importDevices(devices, app: "news")
      }
    }
    report("import in portions of 500", deviceCount, imported)
    var once = AudienceFilter()
    once.isOncePerUser = true
    let filters: [(String, AudienceFilter)] = [
      ("everybody", AudienceFilter()), ("one tag of two", AudienceFilter(all: ["half"])),
      ("two tags", AudienceFilter(all: ["half", "all"])),
      ("any of two tags", AudienceFilter(any: ["half", "all"])),
      ("one tag, no other", AudienceFilter(all: ["all"], none: ["half"])),
      ("one tag, a language", AudienceFilter(all: ["all"], languages: ["en"])), ("each user once", once),
    ]
    for (name, filter) in filters {
      var (after, found, first) = (Int64(0), 0, Duration.zero)
      let last = try await store.lastDeviceKey(app: "news")
      let time = try await clock.measure {
        while true {
          let start = clock.now
          let stretch = try await store.audienceMembers(
            app: "news", filter: filter, after: after, through: last, withTimeZones: false)
          if after == 0 { first = clock.now - start }
          found += stretch.members.count
          after = stretch.through
          if after == last { break }
        }
      }
      report("\(name): first look after \(first)", found, time)
    }
    var counted = 0
    let counting = try await clock.measure {
      counted = try await store.audienceCount(app: "news", filter: AudienceFilter(all: ["half"]), through: .max)
    }
    #expect(counted == (deviceCount + 1) / 2)
    report("count of one tag of two", counted, counting)
    for campaign in 1...3 as ClosedRange<UInt64> {
      var refused = 0
      let admitting = try await clock.measure {
        for start in stride(from: 0, to: deviceCount, by: 4_096) {
          let members = (start..<min(deviceCount, start + 4_096)).map { number in
            var random = SeededGenerator(seed: UInt64(number))
            return random.bytes(16)
          }
          refused += try await store.notAdmitted(
            AdmissionRequest(
              app: "news", campaign: StoredUUID(high: 9, low: campaign), members: members,
              caps: [FrequencyCap(span: 86_400_000, count: 2)], now: StoreInstant(milliseconds: Int64(campaign)))
          ).count
        }
      }
      report("counted for caps, campaign \(campaign): \(refused) are capped", deviceCount, admitting)
    }
    try store.close()
  }

  /// On a server of its own that writes durably. Imports of lines as the service sorts them.
  @Test("imports into PostgreSQL", arguments: [1, 2])
  func measureImports(connections: Int) async throws {
    var setup = PostgreSQLServer.Setup()
    setup.syncs = true
    let server = try PostgreSQLServer(setup)
    var settings = PostgreSQLSettings(
      hosts: [PostgreSQLSettings.Host(name: server.folder)], database: try server.makeDatabase(),
      user: PostgreSQLServer.user, node: "n1")
    settings.connectionCount = 4 + 4 * connections
    let store = try PostgreSQLStore(settings)
    let clock = ContinuousClock()
    func measure(_ name: String, _ blocks: [[DeviceRegistration]]) async throws {
      let time = try await clock.measure {
        try await withThrowingTaskGroup { group in
          for block in blocks {
            group.addTask {
              for start in stride(from: 0, to: block.count, by: store.importPortion) {
                let end = min(start + store.importPortion, block.count)
                _ = try await store.importDevices(Array(block[start..<end]), app: "news")
              }
            }
          }
          try await group.waitForAll()
        }
      }
      report("\(name), \(connections) connections", blocks.map(\.count).reduce(0, +), time)
    }
    for block in stride(from: 0, to: deviceCount, by: 65_536) {
      try await measure("filling", [Self.block(from: block, count: min(65_536, deviceCount - block))])
    }
    for round in 0..<3 {
      let first = deviceCount + round * connections * 65_536
      try await measure("new", (0..<connections).map { Self.block(from: first + $0 * 65_536, count: 65_536) })
      let known = round * connections * 65_536
      try await measure("known", (0..<connections).map { Self.block(from: known + $0 * 65_536, count: 65_536) })
    }
    try store.close()
  }

  /// A device has the same token each time, and three tags.
  private static func block(from first: Int, count: Int) -> [DeviceRegistration] {
    let devices = (first..<first + count).map { number in
      var random = SeededGenerator(seed: UInt64(number))
      var device = DeviceRegistration(
        token: random.bytes(32), newID: StoredUUID(high: UInt64(first), low: UInt64(number)),
        registeredAt: StoreInstant(milliseconds: Int64(first)))
      device.language = .set(number % 3 == 0 ? "de" : "en-GB")
      device.timeZone = .set("Europe/Berlin")
      device.tags = .set(["a\(number % 20)", "b\(number % 83)", "c\(number % 199)"])
      return device
    }
    return devices.sorted { $0.token.lexicographicallyPrecedes($1.token) }
  }

  private func report(_ name: String, _ count: Int, _ time: Duration) {
    let seconds = Double(time.components.seconds) + Double(time.components.attoseconds) / 1e18
    print("\(name): \(count) in \(time), \(Int(Double(count) / seconds)) a second")
  }
}
