internal import PushStore
internal import Support
internal import Testing

@Suite("Counts of devices")
struct DeviceCountTests {
  private static let day: Int64 = 86_400_000

  @Test(
    "they are what one would count in the list, however many are counted at a time", arguments: StoreKind.with(0..<8))
  func counts(seed: UInt64, kind: StoreKind) async throws {
    print("seed \(seed)")
    var random = SeededGenerator(seed: seed)
    let place = try StorePlace(kind)
    let store = try place.open()
    var devices: [DeviceRegistration] = []
    for number in 0..<120 {
      var device = DeviceRegistration(
        token: random.bytes(4), newID: StoredUUID(high: 1, low: UInt64(number)),
        registeredAt: StoreInstant(milliseconds: .random(in: 0...5 * Self.day, using: &random)))
      device.language = .set([nil, "de", "en-GB"].randomElement(using: &random) ?? nil)
      device.tags = .set(Set((0..<6).filter { _ in .random(using: &random) }.map { "t\($0)" }))
      devices.append(device)
    }
    _ = try await store.importDevices(devices, app: "news")
    var others = Array(devices[..<9])
    for index in others.indices { others[index].newID = StoredUUID(high: 2, low: UInt64(index)) }
    _ = try await store.importDevices(others, app: "chat")
    var changes = IntakeChanges()
    for device in devices where Int.random(in: 0..<4, using: &random) == 0 {
      let instant = StoreInstant(milliseconds: .random(in: 0...6 * Self.day, using: &random))
      changes.gone.append(StoredGoneDevice(app: "news", token: device.token, since: instant, foundAt: instant))
    }
    try store.write(changes)
    for device in devices where Int.random(in: 0..<9, using: &random) == 0 {
      _ = try await store.removeDevice(token: device.token, app: "news")
    }
    let first = StoreInstant(milliseconds: 2 * Self.day + 7)
    for app in ["news", "chat", "none"] {
      var expected = DeviceCounts()
      for device in try await store.devices(app: app, tag: nil, after: 0, limit: 1_000) {
        expected.count(device, from: first)
      }
      for limit in [1, 7, 1_000] {
        var counts = DeviceCounts()
        repeat {
          counts.add(try await store.deviceCounts(app: app, after: counts.end ?? 0, limit: limit, from: first))
        } while counts.end != nil
        #expect(counts == expected, "\(app) by \(limit)")
      }
    }
    try store.close()
  }

  @Test("of very many tags the frequent ones are kept")
  func manyTags() {
    var counts = DeviceCounts()
    for part in 0..<3 {
      var others = DeviceCounts()
      for number in 0..<60_000 { others.tags["\(part) \(number)"] = 1 }
      others.tags["frequent"] = 60_000
      counts.add(others)
    }
    #expect(counts.tags.count <= 100_001)
    #expect(counts.tags["frequent"] == 180_000)
  }
}
