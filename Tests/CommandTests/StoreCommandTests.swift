internal import Foundation
internal import Support
internal import Testing

@Suite("carillon store and carillon device", .timeLimit(.minutes(20)))
struct StoreCommandTests {
  @Test(
    "devices are imported and exported; the store is checked and copied, with and without the service",
    .ofStoreFile)
  func store() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    try serve.configure(upstream)
    let key = try await serve.key(["--scope", "devices", "--scope", "admin"])
    let reader = try await serve.key(["--scope", "read"])
    let tenant = try await serve.key(["--scope", "admin", "--app", "news"])
    try serve.site.place.writeSecret(key, to: "admin.key")
    let service = try await serve.start()
    let client = ["--url", "http://127.0.0.1:\(service.api.port)", "--key-file", "admin.key"]
    let lines = (0..<1_500).map { (index: Int) -> String in
      let user = index % 10 == 0 ? "\"ada,\"\"\(index)\"\"\"" : ""
      let language = index % 2 == 0 ? "de" : ""
      return "\(HTTP2Site.token(index)),\(language),Europe/Berlin,a t\(index % 3),2026-01-02T03:04:05.000Z,\(user)"
    }
    let table = (["token,language,timeZone,tags,registeredAt,userId"] + lines).joined(separator: "\n") + "\n"
    try serve.site.place.write(table + "nonsense,,,,,\n", to: "devices.csv")
    let imported = try await serve.site.run(["device", "import", "--app", "news", "devices.csv"] + client)
    #expect(imported.status == 1, "\(imported)")
    #expect(imported.output == "1,500 created, 0 updated, 1 rejected.\n")
    #expect(imported.errors.hasPrefix("line 1502: /token: "), "\(imported)")
    let exported = try await serve.site.run(["device", "export", "--app", "news"] + client)
    #expect(exported.status == 0)
    #expect(exported.output == table)
    let objects = try await serve.site.run(["device", "export", "--app", "news", "--tag", "T1", "--json"] + client)
    #expect(objects.output.split(separator: "\n").count == 500)
    try serve.site.place.write(objects.output, to: "devices.ndjson")
    let again = try await serve.site.run(["device", "import", "--app", "chat", "devices.ndjson"] + client)
    #expect(again.output == "500 created, 0 updated, 0 rejected.\n")

    let check = try await serve.site.run(["store", "check", "--config", "carillon.yaml", "--json"])
    #expect(check.status == 0, "\(check)")
    #expect(check.output.contains("\"devices\":2000"), "\(check)")
    #expect(check.output.contains("\"problems\":[]"), "\(check)")
    let backup = try await serve.site.run(["store", "backup", "copy.db"] + client)
    #expect(backup.status == 0, "\(backup)")
    #expect(backup.output.contains("devices: 2000"), "\(backup)")
    let attributes = try FileManager.default.attributesOfItem(atPath: serve.site.place.path("copy.db"))
    #expect(attributes[.posixPermissions] as? Int == 0o600)
    #expect(try await serve.site.run(["store", "backup", "copy.db"] + client).status == 2)
    #expect(try await serve.request(service.api, "/v1/store:backup", key: reader, body: "").status == 403)
    #expect(try await serve.request(service.api, "/v1/store:backup", key: tenant, body: "").status == 403)
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)

    let direct = try await serve.site.run(["store", "backup", "--config", "carillon.yaml", "second.db"])
    #expect(direct.status == 0, "\(direct)")
    #expect(direct.output.contains("devices: 2000"), "\(direct)")
  }

  @Test("a deployment moves from its file into a database, with the files of its campaigns")
  func moved() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    let place = "store: { path: store.db }"
    try serve.configure(upstream, more: place)
    let key = try await serve.key(["--scope", "devices", "--scope", "admin"])
    try serve.site.place.writeSecret(key, to: "admin.key")
    var service = try await serve.start()
    func client() -> [String] { ["--url", "http://127.0.0.1:\(service.api.port)", "--key-file", "admin.key"] }
    let lines = (0..<1_200).map {
      "\(HTTP2Site.token($0)),de,Europe/Berlin,a t\($0 % 3),2026-01-02T03:04:05.000Z,\"u\($0)\""
    }
    let table = (["token,language,timeZone,tags,registeredAt,userId"] + lines).joined(separator: "\n") + "\n"
    try serve.site.place.write(table, to: "devices.csv")
    let imported = try await serve.site.run(["device", "import", "--app", "news", "devices.csv"] + client())
    #expect(imported.status == 0, "\(imported)")
    let folder = serve.site.place.path("store.db.campaigns/a")
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    try serve.site.place.write("token\n", to: "store.db.campaigns/a/audience.csv")
    let file = try String(contentsOfFile: serve.site.place.path("carillon.yaml"), encoding: .utf8)
    let store = try ServeSite.store(in: try PostgreSQLServer.shared.get())
    try serve.site.place.write(file.replacing(place, with: store), to: "database.yaml")
    let copy = ["store", "copy", "--from", "store.db", "--config"]
    let early = try await serve.site.run(copy + ["database.yaml"])
    #expect(early.status == 3, "\(early)")
    #expect(early.errors.contains("stop the service"), "\(early)")
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)

    let wrong = try await serve.site.run(copy + ["carillon.yaml"])
    #expect(wrong.status == 2, "\(wrong)")
    let moved = try await serve.site.run(copy + ["database.yaml"])
    #expect(moved.status == 0, "\(moved)")
    let row = moved.output.split(separator: "\n").first { $0.hasPrefix("devices ") }
    #expect(row?.split(separator: " ").map(String.init) == ["devices", "1200", "1200"], "\(moved)")
    let audience = serve.site.place.path("store.campaigns/a/audience.csv")
    #expect(FileManager.default.fileExists(atPath: audience))
    let again = try await serve.site.run(copy + ["database.yaml"])
    #expect(again.status == 3, "\(again)")
    #expect(again.errors.contains("has data already"), "\(again)")

    let migrated = try await serve.site.run(["store", "migrate", "--config", "database.yaml"])
    #expect(migrated.output.hasSuffix("up to date.\n"), "\(migrated)")
    let check = try await serve.site.run(["store", "check", "--config", "database.yaml"])
    #expect(check.status == 0, "\(check)")
    #expect(check.output.contains("  devices: 1200\n"), "\(check)")
    try serve.site.place.write(file.replacing(place, with: store), to: "carillon.yaml")
    service = try await serve.start()
    let exported = try await serve.site.run(["device", "export", "--app", "news"] + client())
    #expect(exported.output == table, "\(exported.errors)")
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
  }

  @Test("a damaged store is named, by the check and at the start of the service", .ofStoreFile)
  func damaged() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    try serve.configure(upstream)
    for index in 0..<40 { _ = try await serve.key(["--app", index % 2 == 0 ? "news" : "chat"]) }
    let path = serve.site.place.path("store.db")
    // A copy has everything in one file, without a write-ahead log.
    let backup = try await serve.site.run(["store", "backup", "--config", "carillon.yaml", "copy.db"])
    #expect(backup.status == 0, "\(backup)")
    for name in ["store.db", "store.db-wal", "store.db-shm"] {
      try? FileManager.default.removeItem(atPath: serve.site.place.path(name))
    }
    try FileManager.default.moveItem(atPath: serve.site.place.path("copy.db"), toPath: path)
    var bytes = try Data(contentsOf: URL(filePath: path))
    // A page of a table in the middle.
    for offset in stride(from: 8 * 4096, to: min(bytes.count, 40 * 4096), by: 4096) {
      bytes.replaceSubrange(offset..<offset + 64, with: Data(repeating: 0xA5, count: 64))
    }
    try bytes.write(to: URL(filePath: path))
    let check = try await serve.site.run(["store", "check", "--config", "carillon.yaml"])
    #expect(check.status == 1 || check.status == 3, "\(check)")
    #expect(check.output.contains("is damaged") || check.errors.contains("damaged"), "\(check)")

    bytes.replaceSubrange(0..<100, with: Data(repeating: 0x20, count: 100))
    try bytes.write(to: URL(filePath: path))
    for arguments in [["store", "check"], ["serve", "--json"], ["key", "list"]] {
      let ending = try await serve.site.run(arguments + ["--config", "carillon.yaml"])
      #expect(ending.status == 3, "\(arguments): \(ending)")
      #expect(ending.sentences.count == 1, "\(arguments): \(ending)")
      #expect(ending.errors.contains("store.db"), "\(ending)")
      #expect(ending.errors.contains("carillon store check"), "\(ending)")
    }
  }
}
