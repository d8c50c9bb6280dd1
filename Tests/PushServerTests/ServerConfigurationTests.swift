internal import Carillon
internal import PushStore
internal import Testing

@testable internal import PushServer

@Suite("The configuration of the service")
struct ServerConfigurationTests {
  fileprivate static let apps = """
    apps:
      - id: news
        topic: com.example.news
        transport: http2
        credential: { key: AuthKey_ABC123DEFG.p8, team-id: DEF123GHIJ }
    """

  @Test("what is left out has a default; what is set counts")
  func values() throws {
    let least = try ServerConfiguration.parse("journal: { directory: j }\n" + Self.apps, file: "c.yaml")
    #expect(least.api.listen == Listen(host: "127.0.0.1", port: 8480))
    #expect(least.admin.listen == Listen(host: "127.0.0.1", port: 8481))
    #expect(least.retention == .seconds(7 * 86_400))
    #expect(least.tenants.map(\.id) == ["news"])
    let whole = try ServerConfiguration.parse(
      """
      journal: { directory: j, sync: always }
      api: { listen: "[::1]:0", max-body: 1MiB, max-connections: 5, max-address-connections: 4, max-keyless-connections: 2, idle-timeout: 9s, rate-limit: 300/m }
      admin: { listen: 0.0.0.0:9 }
      store: { path: s.db }
      shutdown: { announce: 2s, drain: 3s }
      retention: 24h
      \(Self.apps)
      """, file: "c.yaml")
    #expect(whole.api.listen == Listen(host: "::1", port: 0))
    #expect(whole.api.listen.description == "[::1]:0")
    #expect(whole.api.maxBody == 1 << 20)
    #expect(whole.api.maxConnections == 5)
    #expect([whole.api.addressConnections, whole.api.keylessConnections] == [4, 2])
    #expect([least.api.addressConnections, least.api.keylessConnections] == [768, 256])
    #expect(whole.api.idleTimeout == .seconds(9))
    #expect(whole.api.rateLimit == 5)
    #expect(least.api.rateLimit == nil)
    #expect(least.tenants.first?.app.weight == 1)
    #expect(whole.admin.listen.port == 9)
    #expect(whole.store.path(besides: "")?.hasSuffix("s.db") == true)
    #expect(whole.shutdown.announce == .seconds(2))
    #expect(whole.shutdown.drain == .seconds(3))
    #expect(whole.retention == .seconds(86_400))
  }

  @Test("a database's hosts are names, addresses and folders of sockets; its password is in a file")
  func database() throws {
    let text = #"hosts: [db1, "db2:5433", "::1", "[::1]:5434", /run/postgresql], database: carillon, user: pusher"#
    let more = "password-file: db.password, tls: verify-ca, trust: ca.pem, connections: 12"
    let read = try ServerConfiguration.parse(
      "journal: { directory: j }\nstore: { postgres: { \(text), \(more) } }\n" + Self.apps, file: "/etc/c.yaml")
    guard case .postgreSQL(let settings) = read.store else {
      Issue.record("\(read.store)")
      return
    }
    #expect(settings.hosts.map(\.name) == ["db1", "db2", "::1", "::1", "/run/postgresql"])
    #expect(settings.hosts.map(\.port) == [5432, 5433, 5432, 5434, 5432])
    #expect(settings.passwordFile == "/etc/db.password")
    #expect(settings.authorities == "/etc/ca.pem")
    #expect(settings.encryption == .verifyAuthority)
    #expect(settings.connectionCount == 12)
    #expect(settings.name.hasSuffix("/carillon"))
    #expect(read.store.path(besides: "/etc/c.yaml") == nil)
    #expect(!settings.node.isEmpty)
    let named = try ServerConfiguration.parse(
      "journal: { directory: j }\ncluster: { node: n-1.a, lease: 4s }\nstore: { postgres: { \(text) } }\n" + Self.apps,
      file: "/etc/c.yaml")
    #expect(named.store.cluster == StoreConfiguration.Cluster(node: "n-1.a", lease: .seconds(4)))
    // It is this machine's, so it is named by itself when the file is read again.
    let other = try ServerConfiguration.parse(
      "journal: { directory: j }\ncluster: { node: n-1.a }\nstore: { postgres: { \(text) } }\n" + Self.apps,
      file: "/etc/c.yaml")
    #expect(other.waiting(besides: named) == ["cluster"])
  }

  @Test("what other nodes are to send needs a store that they share")
  func durability() throws {
    func parse(_ word: String, _ store: String = "") throws -> [Bool] {
      try ServerConfiguration.parse(
        "journal: { directory: j }\n\(store)\n\(Self.apps)\n    durability: \(word)\n", file: "/etc/c.yaml"
      ).tenants.map(\.isShared)
    }
    let database = "store: { postgres: { hosts: [a], database: b, user: c } }"
    #expect(try parse("node").last == false)
    #expect(try parse("cluster", database).last == true)
    let missing = #expect(throws: ConfigurationError.self) { try parse("cluster") }
    #expect(missing?.description.contains("needs a store that machines can share") == true)
    let unknown = #expect(throws: ConfigurationError.self) { try parse("all", database) }
    #expect(unknown?.description.contains("node or cluster") == true, "\(unknown?.description ?? "")")
  }

  @Test("connections that nodes share need a store that they share, and are divided among them")
  func connectionTotal() throws {
    func parse(_ store: String) throws -> Int? {
      try ServerConfiguration.parse(
        "journal: { directory: j }\n\(store)\n\(Self.apps)\n    connections: { min: 2, total: 7 }\n",
        file: "/etc/c.yaml"
      ).tenants.last?.connectionTotal
    }
    #expect(try parse("store: { postgres: { hosts: [a], database: b, user: c } }") == 7)
    let missing = #expect(throws: ConfigurationError.self) { try parse("") }
    #expect(missing?.description.contains("connections: { total: 7 }") == true, "\(missing?.description ?? "")")
    for (total, count) in [(7, 3), (1, 4), (12, 1), (100, 7), (5, 5)] {
      let shares = (0..<count).map { ConnectionSharing.share(of: total, place: $0, among: count) }
      #expect(shares.reduce(0, +) == max(total, count))
      #expect(shares.allSatisfy { $0 >= 1 })
    }
  }

  @Test(
    "a mistake is said with its line and its key",
    arguments: [
      ("", "journal"), ("journal: { directory: j }\napi: { listen: 8480 }", "host:port"),
      ("journal: { directory: j }\napi: { listen: 0.0.0.0:8480 }", "without TLS"),
      ("journal: { directory: j }\napi: { listn: a:1 }", "listn"), ("journal: { directory: j }\nstor: {}", "stor"),
      ("journal: { directory: j }\nretention: 1s", "retention"),
      ("journal: { directory: j }\napi: { max-connections: 9, max-keyless-connections: 10 }", "from 1 to 9"),
      ("journal: { directory: j }\napi: { max-address-connections: 0 }", "from 1 to"),
      (
        "journal: { directory: j }\nstore: { path: s.db, postgres: { hosts: [a], database: b, user: c } }",
        "both \"path\" and \"postgres\""
      ),
      ("journal: { directory: j }\ncluster: { node: n1 }", "store that machines can share"),
      (
        "journal: { directory: j }\ncluster: { node: n 1 }\nstore: { postgres: { hosts: [a], database: b, user: c } }",
        "not \"n 1\""
      ),
      (
        "journal: { directory: j }\ncluster: { lease: 1s }\nstore: { postgres: { hosts: [a], database: b, user: c } }",
        "lease"
      ),
      ("journal: { directory: j }\nstore: { postgres: { database: b, user: c } }", "\"hosts\""),
      ("journal: { directory: j }\nstore: { postgres: { hosts: [], database: b, user: c } }", "1 to 16 hosts"),
      ("journal: { directory: j }\nstore: { postgres: { hosts: [\"a:x\"], database: b, user: c } }", "host:port"),
      (
        "journal: { directory: j }\nstore: { postgres: { hosts: [a], database: b, user: c, tls: yes } }",
        "disable or require or verify-ca or verify-full"
      ),
      ("journal: { directory: j }\nstore: { postgres: { hosts: [a], database: b, user: c, password: d } }", "password"),
    ])
  func mistakes(text: String, word: String) {
    let error = #expect(throws: ConfigurationError.self) {
      try ServerConfiguration.parse(text + "\n" + Self.apps, file: "c.yaml")
    }
    #expect(error?.description.contains("c.yaml") == true, "\(String(describing: error))")
    #expect(error?.description.contains(word) == true, "\(String(describing: error))")
  }
}

@Suite("Ids of apps")
struct AppIDTests {
  @Test("an id that is a folder's is none", arguments: [".", ".."])
  func folders(id: String) {
    let error = #expect(throws: ConfigurationError.self) {
      try ServerConfiguration.parse(
        "journal: { directory: j }\n" + ServerConfigurationTests.apps.replacing("id: news", with: "id: \"\(id)\""),
        file: "c.yaml")
    }
    #expect(error?.description.contains("must not be \"\(id)\"") == true, "\(String(describing: error))")
  }
}

@Suite("Keys of the control interface")
struct APIKeyTests {
  @Test("a key is read back as it was written; no two are the same")
  func roundTrip() throws {
    let keys = (0..<100).map { _ in APIKey.make() }
    #expect(Set(keys).count == keys.count)
    for key in keys { #expect(APIKey(key.text) == key) }
  }

  @Test(
    "what is no key is refused",
    arguments: [
      "", "car", "car__", "car_0_0", "cat_000000000000_" + String(repeating: "0", count: 64),
      "car_00000000000G_" + String(repeating: "0", count: 64), "car_000000000000_" + String(repeating: "0", count: 63),
      "car_000000000000_" + String(repeating: "0", count: 64) + "_",
    ])
  func hostile(text: String) { #expect(APIKey(text) == nil) }
}
