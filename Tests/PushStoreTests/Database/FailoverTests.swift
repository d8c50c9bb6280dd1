internal import Foundation
internal import PushStore
internal import Support
internal import Testing

@testable internal import PushStorePostgreSQL

/// A primary with a synchronous standby, and what of them a store may rely on.
@Suite("A database with a standby", .timeLimit(.minutes(10)))
struct FailoverTests {
  private struct Pair {
    let primary: PostgreSQLServer
    let standby: PostgreSQLServer
    let settings: PostgreSQLSettings

    init() throws {
      let port = OwnPort.random(count: 2)
      var setup = PostgreSQLServer.Setup()
      setup.port = port
      primary = try PostgreSQLServer(setup)
      standby = try primary.makeStandby(port: port + 1)
      var settings = try primary.makeSettings()
      settings.hosts.append(standby.host)
      self.settings = settings
    }

    /// Of the new primary alone.
    var promoted: PostgreSQLSettings {
      var settings = settings
      settings.hosts = [standby.host]
      return settings
    }
  }

  /// How a primary is lost.
  enum Loss: String, CaseIterable, CustomTestStringConvertible {
    case killed, stopped

    var testDescription: String { rawValue }
  }

  @Test(
    "the primary is lost and its standby promoted: writes go on, nothing is lost, nothing counts twice",
    arguments: Loss.allCases)
  func promotion(after loss: Loss) async throws {
    let pair = try Pair()
    let writes = SteadyWrites(try PostgreSQLStore(pair.settings))
    try await writes.proceed("it writes")
    let state = try #require(try await writes.store.databaseState())
    #expect(state.standbyCount == 1)
    #expect(state.synchronousStandbyCount == 1)
    let lost = ContinuousClock.now
    if loss == .killed { try pair.primary.kill() } else { try pair.primary.setStopped(true) }
    try pair.standby.promote()
    let promotion = ContinuousClock.now - lost
    try await writes.proceed("it writes to the new primary")
    let gaps = writes.gaps(since: lost)
    print("primary \(loss): promoted after \(promotion); no outcome for \(gaps.batches), no device for \(gaps.devices)")
    if loss == .stopped {
      // It accepts writes again, and waits for its standby for ever.
      try pair.primary.setStopped(false)
      try await writes.proceed(by: 200, "it stays with the new primary")
    }
    try await writes.end(with: pair.promoted)
  }

  @Test("the former primary comes back before the store does: the later one is used")
  func formerPrimary() async throws {
    let pair = try Pair()
    let before = try PostgreSQLStore(pair.settings)
    try before.close()
    try pair.primary.setStopped(true)
    try pair.standby.promote()
    try pair.primary.setStopped(false)
    for _ in 0..<5 {
      let store = try PostgreSQLStore(pair.settings)
      try await store.pause(app: "news", at: StoreInstant(milliseconds: 1))
      try store.close()
    }
    #expect(try pair.standby.query("SELECT count(*) FROM app_states", in: pair.settings.database) == "1")
  }

  @Test("the standby is away: nothing is acknowledged, sessions do not pile up; with it back, all goes on")
  func standbyAway() async throws {
    let pair = try Pair()
    let store = try PostgreSQLStore(pair.settings)
    let writes = SteadyWrites(store)
    try await writes.proceed("it writes")
    try pair.standby.setStopped(true)
    let began = ContinuousClock.now
    try await waitUntil("a commit waits", limit: .seconds(60)) {
      let error = try #require(
        await #expect(throws: StoreError.self) { try await store.pause(app: "chat", at: StoreInstant(milliseconds: 1)) }
      )
      #expect(error.kind == .away)
      return error.description.contains("commits wait for a synchronous standby")
    }
    let sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'carillon/n1'"
    var (most, reads) = (0, 0)
    while ContinuousClock.now - began < .seconds(16) {
      most = max(most, Int(try pair.primary.query(sessions)) ?? .max)
      // Now and then all connections wait.
      if (try? await store.pausedApps()) != nil { reads += 1 }
      try await Task.sleep(for: .milliseconds(200))
    }
    #expect(reads > 0)
    // Besides those that work and those that wait, some ask what became of others.
    #expect(most <= 3 * pair.settings.connectionCount)
    print(
      "standby away for 16 s: at most \(most) sessions of \(pair.settings.connectionCount) connections, \(reads) reads")
    // A service may start meanwhile.
    try PostgreSQLStore(pair.settings).close()
    try pair.standby.setStopped(false)
    try await writes.proceed("it goes on")
    print("no outcome for \(writes.gaps(since: began).batches)")
    try await writes.end(with: pair.settings)
  }

  /// One is a transaction of the connection, the other of its caller.
  enum Write: String, CaseIterable, CustomTestStringConvertible {
    case app, device

    var testDescription: String { rawValue }

    fileprivate func attempt(_ number: UInt8, _ store: PostgreSQLStore) async throws(StoreError) {
      let instant = StoreInstant(milliseconds: 1)
      switch self {
      case .app: try await store.pause(app: "app\(number)", at: instant)
      case .device:
        let id = StoredUUID(high: 1, low: UInt64(number))
        _ = try await store.register(
          DeviceRegistration(token: [number], newID: id, registeredAt: instant), app: "news")
      }
    }
  }

  @Test(
    "of all writes two wait for a standby that is away, and the others are refused at once",
    arguments: Write.allCases)
  func refusedWrites(_ write: Write) async throws {
    let pair = try Pair()
    let store = try PostgreSQLStore(pair.settings)
    try await write.attempt(0, store)
    try pair.standby.setStopped(true)
    for number in 1...UInt8(6) {
      let error = try #require(await #expect(throws: StoreError.self) { try await write.attempt(number, store) })
      #expect(error.description.contains("commits wait for a synchronous standby"))
    }
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    #expect(try pair.primary.query(waiting) == "2")
    try pair.standby.setStopped(false)
    try await waitUntil("it goes on", limit: .seconds(60)) {
      do throws(StoreError) {
        try await write.attempt(7, store)
        return true
      } catch { return false }
    }
    try store.close()
  }

  @Test("a commit that did not wait for the standby is no acknowledgement, also when it is found in place")
  func cancelledWait() async throws {
    let pair = try Pair()
    let store = try PostgreSQLStore(pair.settings)
    let writes = SteadyWrites(store)
    try await writes.proceed("it writes")
    try pair.standby.end()
    let waiting = "FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    let cancel = "SELECT count(*) FROM (SELECT pg_cancel_backend(pid) \(waiting)) AS cancelled"
    var cancelled = 0
    // What is committed is in place, so that whoever asks for it again writes nothing.
    try await waitUntil("waits are cancelled", limit: .seconds(60)) {
      cancelled += Int(try pair.primary.query(cancel)) ?? 0
      return cancelled > 40
    }
    // The standby has nothing of it.
    try pair.primary.kill()
    try pair.standby.start()
    try pair.standby.promote()
    try await writes.proceed("it writes to the new primary")
    print("\(cancelled) waits were cancelled")
    try await writes.end(with: pair.promoted)
  }

  @Test("a transaction that another session holds open for 20 s keeps no write waiting")
  func longTransaction() async throws {
    let server = try PostgreSQLServer()
    let settings = try server.makeSettings()
    let writes = SteadyWrites(try PostgreSQLStore(settings))
    try await writes.proceed("it writes")
    let other = try ChildProcess(
      [
        "-h", server.folder, "-U", PostgreSQLServer.user, "-XAtqc", "BEGIN ISOLATION LEVEL REPEATABLE READ", "-c",
        "SELECT 'open', count(*) FROM node_writes, devices", "-c", "SELECT pg_sleep(20)", settings.database,
      ], program: "psql")
    try await waitUntil("it holds a transaction", limit: .seconds(20)) {
      try server.query("SELECT count(*) FROM pg_stat_activity WHERE query ~ '^SELECT pg_sleep'") == "1"
    }
    let began = ContinuousClock.now
    try await waitUntil("the database says so", limit: .seconds(10)) {
      (try await writes.store.databaseState()?.transactionAge ?? .zero) > .seconds(1)
    }
    while !other.hasEnded { try await writes.proceed("it goes on") }
    #expect(ContinuousClock.now - began > .seconds(15))
    let gaps = writes.gaps(since: began)
    print("a transaction open for 20 s: at most \(gaps.batches) without an outcome, \(gaps.devices) without a device")
    #expect(gaps.batches < .seconds(5))
    try await writes.end(with: settings)
  }

  @Test("a server that stops while much is sent to it gets the rest when it goes on")
  func stoppedReader() async throws {
    let server = try PostgreSQLServer()
    let store = try PostgreSQLStore(try server.makeSettings())
    let devices = (0..<20_000).map { number in
      var token: [UInt8] = []
      token.append(bigEndian: UInt64(number))
      return DeviceRegistration(
        token: token, newID: StoredUUID(high: 1, low: UInt64(number)),
        registeredAt: StoreInstant(milliseconds: 5))
    }
    // The connection is there.
    _ = try await store.importDevices(Array(devices.prefix(1)), app: "news")
    try server.setStopped(true)
    let began = ContinuousClock.now
    async let imported = store.importDevices(devices, app: "news")
    // Longer than it is waited for without looking elsewhere.
    try await Task.sleep(for: .seconds(1.5))
    try server.setStopped(false)
    #expect(try await imported.count == devices.count)
    #expect(ContinuousClock.now - began < .seconds(40), "it did not wait for the deadline, which is 60 s")
    try store.close()
  }
}
