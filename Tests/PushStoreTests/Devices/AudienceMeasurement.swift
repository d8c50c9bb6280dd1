internal import Foundation
internal import PushStore
internal import PushStoreSQLite
internal import Support
internal import Testing

private let deviceCount = ProcessInfo.processInfo.environment["CARILLON_DEVICES"].flatMap { Int($0) } ?? 0

/// How fast devices are imported and read as an audience. Runs only with a number of devices:
/// `CARILLON_DEVICES=1000000 CARILLON_ONLY=store swift test -c release -Xswiftc -enable-testing
/// --filter AudienceMeasurement`.
@Suite("Measurement of audiences", .enabled(if: deviceCount > 0))
struct AudienceMeasurement {
  @Test("devices by second")
  func measure() async throws {
    let place = try Workplace()
    let store = try SQLiteStore(path: place.path("store.db"))
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
          return device
        }
        _ = try await store.importDevices(devices, app: "news")
      }
    }
    report("import in portions of 500", deviceCount, imported)
    let filters: [(String, AudienceFilter)] = [
      ("everybody", AudienceFilter()), ("one tag of two", AudienceFilter(all: ["half"])),
      ("two tags", AudienceFilter(all: ["half", "all"])),
      ("any of two tags", AudienceFilter(any: ["half", "all"])),
      ("one tag, no other", AudienceFilter(all: ["all"], none: ["half"])),
      ("one tag, a language", AudienceFilter(all: ["all"], languages: ["en"])),
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
    try store.close()
  }

  private func report(_ name: String, _ count: Int, _ time: Duration) {
    let seconds = Double(time.components.seconds) + Double(time.components.attoseconds) / 1e18
    print("\(name): \(count) in \(time), \(Int(Double(count) / seconds)) a second")
  }
}
