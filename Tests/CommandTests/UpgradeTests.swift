internal import Foundation
internal import Support
internal import Testing

/// Journals and stores that earlier versions have written, as their processes were killed.
@Suite("files of earlier versions", .timeLimit(.minutes(20)))
struct UpgradeTests {
  private static let fixtures = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Fixtures")

  /// Written by commit e2baa62, in an earlier version of the format: a campaign of 400, all of
  /// which may have arrived.
  @Test(
    "a journal of another format is refused by all who read it, in one sentence, and stays as it is",
    arguments: [
      ["send", "--resume"], ["journal", "inspect"], ["journal", "verify"], ["journal", "abandon"], ["serve"],
    ])
  func journalOfAnotherFormat(command: [String]) async throws {
    let serve = try ServeSite()
    let fixture = Self.fixtures.appending(path: "journal-2026-11-21")
    let journal = serve.site.place.url.appending(path: "journal")
    try FileManager.default.copyItem(at: fixture, to: journal)
    try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: serve.site.place.path("journal"))
    let upstream = try await serve.site.simulate()
    try serve.configure(upstream, apps: ["news"])
    let arguments =
      switch command[0] {
      case "send": ["--journal", "journal"]
      case "journal": ["journal"]
      default: ["--config", "carillon.yaml"]
      }
    let ending = try await serve.site.run(command + arguments)
    expectOneSentence(
      ending, status: ending.status, containing: "segment-000000000001.lz4 has version 2 of the journal's format")
    #expect([1, 2, 3].contains(ending.status), "\(ending)")
    let name = "segment-000000000001.lz4"
    #expect(
      try Data(contentsOf: journal.appending(path: name)) == Data(contentsOf: fixture.appending(path: name)))
    #expect(
      try FileManager.default.contentsOfDirectory(atPath: serve.site.place.path("journal")).sorted() == ["lock", name])
    #expect(try await serve.site.taken(upstream).isEmpty)
  }

  /// Written by commit c89761d with its gateway away: 43 notifications, a campaign of 50 that had
  /// begun, one of stored devices that is to begin in 2099, and 20 devices.
  @Test("a service resumes what a former one was killed with, and each arrives once", .ofStoreFile)
  func service() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    try serve.configure(upstream, apps: ["news"])
    let fixture = Self.fixtures.appending(path: "service-2026-11-24")
    for name in try FileManager.default.contentsOfDirectory(atPath: fixture.path(percentEncoded: false)) {
      try FileManager.default.copyItem(
        atPath: fixture.appending(path: name).path(percentEncoded: false), toPath: serve.site.place.path(name))
    }
    let key = try await serve.key(["--scope", "admin"])
    let service = try await serve.start()
    let site = CampaignSite(service, key: key)
    let sale = "/campaigns/01a212c8-e35e-711d-bee8-8f422e722a4f"
    #expect(try await site.ended(sale).state == "finished")
    let account = try await site.account(sale)
    #expect(account.submitted == 50)
    #expect(account.accepted.confirmed == 50)
    let batch = "01a212c8-e27d-7db2-a695-d47ce0847dbb"
    try await waitUntil("the batch has its outcomes") {
      try await serve.account(of: batch, service, key: key).accepted.confirmed == 40
    }
    #expect(try await site.campaign("/campaigns/01a212c8-e3cb-75b6-b260-780d0fa3e002").state == "scheduled")
    struct Devices: Decodable {
      struct Device: Decodable { let tags: [String] }
      let items: [Device]
    }
    let devices = try await site.call("GET", "/devices?limit=100").decoded(Devices.self)
    #expect(devices.items.count { $0.tags == ["even"] } == 10)
    #expect(devices.items.count == 20)
    service.process.send(SIGTERM)
    let ending = await service.process.ending()
    #expect(ending.status == 0, "\(ending)")
    let taken = try await serve.site.taken(upstream).compactMap(\.token)
    let expected = [(1, 40), (2, 3), (4, 50)].flatMap { kind, count in
      (1...count).map { String(format: "%02d%062d", kind, $0) }
    }
    #expect(taken.sorted() == expected.sorted())
  }
}
