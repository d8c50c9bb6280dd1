internal import Foundation
internal import PushStore
internal import Support
internal import Testing

@testable internal import PushStorePostgreSQL

/// Who is let in, and whom the store trusts. A refusal says what is wrong, where, and what to do.
@Suite("Access to a database", .timeLimit(.minutes(5)))
struct DatabaseAccessTests {
  /// A server with a certificate and a password.
  private struct Site {
    let server: PostgreSQLServer
    let place: Workplace
    var settings: PostgreSQLSettings

    static let password = "correct horse battery"

    init(names: [String] = ["localhost"]) throws {
      place = try Workplace()
      var setup = PostgreSQLServer.Setup()
      (setup.port, setup.names, setup.password) = (OwnPort.random(), names, Self.password)
      server = try PostgreSQLServer(setup)
      settings = try server.makeSettings()
      settings.hosts[0].name = "localhost"
      settings.encryption = .verifyFull
      settings.authorities = server.authority
      try write(password: Self.password + "\nwhat follows is no part of it\n")
    }

    mutating func write(password: String) throws {
      try place.writeSecret(password, to: "password")
      settings.passwordFile = place.path("password")
    }

    /// Why the store cannot be opened.
    func refusal() throws -> String {
      let error = try #require(throws: StoreError.self) { try PostgreSQLStore(settings) }
      #expect(error.kind == .unusable)
      #expect(!error.description.contains(Self.password))
      let host = settings.hosts[0].text
      let beginning = "the database \(host)/\(settings.database) cannot be reached: "
      #expect(error.description.hasPrefix(beginning), "\(error)")
      return String(error.description.dropFirst(beginning.count)).replacing(host, with: "HOST")
    }
  }

  @Test("a certificate of the right authority and name, and the right password, are accepted")
  func right() async throws {
    let site = try Site(names: ["localhost", "127.0.0.1"])
    for name in ["localhost", "127.0.0.1"] {
      var settings = site.settings
      settings.hosts[0].name = name
      let store = try PostgreSQLStore(settings)
      try await store.pause(app: name, at: StoreInstant(milliseconds: 1))
      try store.close()
      let facts = try PostgreSQLReport(settings, at: 0).facts
      #expect(facts.first?.contains("over TLSv1.3") == true, "\(facts)")
    }
  }

  @Test("another name, another authority, and none are refused")
  func certificates() throws {
    var site = try Site()
    let authority = site.settings.authorities
    site.settings.hosts[0].name = "127.0.0.1"
    let other = try site.refusal()
    #expect(other == #"the certificate of HOST is for another name; dial a name that it has, such as "localhost""#)
    site.settings.hosts[0].name = "localhost"
    // Those of the system.
    site.settings.authorities = nil
    let unknown = "or none of the system's authorities has signed it; name its authority in trust"
    #expect(try site.refusal() == "the certificate of HOST has expired, \(unknown)")
    let missing = site.place.path("missing.pem")
    site.settings.authorities = missing
    #expect(
      try site.refusal()
        == #"the certificate of HOST cannot be verified: root certificate file "\#(missing)" does not exist "#
        + "Either provide the file or change sslmode to disable server certificate verification.; "
        + "name its authority in trust")
    site.settings.authorities = authority
    try PostgreSQLStore(site.settings).close()
  }

  @Test("a server without TLS is refused, unless TLS was given up")
  func plain() throws {
    var site = try Site(names: [])
    #expect(try site.refusal() == "HOST has no TLS; turn it on there (ssl = on), or set tls: disable")
    site.settings.encryption = .disable
    try PostgreSQLStore(site.settings).close()
  }

  @Test("a wrong password, none, an unknown user and an unknown database are refused")
  func passwords() throws {
    var site = try Site()
    try site.write(password: "Tr0ub4dor")
    #expect(
      try site.refusal() == "HOST refuses the password of the user carillon; put the right one into password-file")
    #expect(!(try site.refusal()).contains("Tr0ub4dor"))
    site.settings.passwordFile = nil
    #expect(
      try site.refusal() == "HOST asks for a password of the user carillon; name a file that has it in password-file")
    try site.write(password: Site.password)
    site.settings.database = "elsewhere"
    #expect(
      try site.refusal()
        == #"HOST: database "elsewhere" does not exist; create the database elsewhere and the user carillon there"#)
  }

  @Test("a password that changes while a service runs is waited for, and the new one is read")
  func changedPassword() async throws {
    var site = try Site()
    let store = try PostgreSQLStore(site.settings)
    try site.server.query("ALTER USER carillon PASSWORD 'another'")
    try site.server.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name ~ '^carillon'")
    let error = try #require(
      await #expect(throws: StoreError.self) { try await store.pause(app: "news", at: StoreInstant(milliseconds: 1)) })
    #expect(error.kind == .away)
    #expect(error.description.contains("refuses the password of the user carillon"))
    try site.write(password: "another")
    try await waitUntil("the store goes on", limit: .seconds(20)) {
      (try? await store.pause(app: "news", at: StoreInstant(milliseconds: 1))) != nil
    }
    try store.close()
  }

  @Test("a user who may not see others' sessions hears nothing of standbys, and is not told that there is none")
  func unseenSessions() async throws {
    let server = try PostgreSQLServer()
    var settings = try server.makeSettings()
    try server.query("CREATE ROLE plain LOGIN")
    try server.query("ALTER DATABASE \(settings.database) OWNER TO plain")
    try server.query("GRANT CREATE ON SCHEMA public TO plain", in: settings.database)
    try server.query("ALTER SYSTEM SET synchronous_standby_names = 'elsewhere'")
    settings.user = "plain"
    let report = try PostgreSQLReport(settings, at: Int64(Date().timeIntervalSince1970))
    #expect(report.problems.isEmpty)
    #expect(report.warnings.allSatisfy { $0.contains("no synchronous standby") })
    try server.query("SELECT pg_reload_conf()")
    try await waitUntil("it asks for a standby") {
      try server.query("SHOW synchronous_standby_names") == "elsewhere"
    }
    let blind = try PostgreSQLReport(settings, at: Int64(Date().timeIntervalSince1970))
    #expect(blind.warnings.isEmpty)
    #expect(blind.facts.contains { $0.contains("the user plain cannot see; grant it pg_read_all_stats") })
    try server.query("ALTER SYSTEM RESET synchronous_standby_names")
    try server.query("SELECT pg_reload_conf()")
    try await waitUntil("it asks for none") { try server.query("SHOW synchronous_standby_names") == "" }
    let store = try PostgreSQLStore(settings)
    let state = try #require(try await store.databaseState())
    #expect(state.standbyCount == nil)
    #expect(state.synchronousStandbyCount == nil)
    #expect(state.transactionAge == nil)
    try store.close()
  }
}
