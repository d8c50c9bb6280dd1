internal import Foundation
internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization
internal import Testing

@testable internal import Carillon
@testable internal import PushEngine

@Suite("A run of notifications that were handed over for good")
struct IntakeRunTests {
  private static let team = "DEF123GHIJ"

  /// A run, and what its reader and its callers see of it.
  private final class Site {
    let queue: IntakeRun.Queue
    let loop = SimulatedLoop(seed: 1)
    let gauge = IntakeGauge(.high)
    private let chunk = AudienceChunk(payloadCapacity: 64 << 10)
    private let notification: PreparedNotification
    private let token: TokenBytes

    init(_ folder: URL) throws {
      let key = folder.appending(path: "key.p8").path
      try ProviderKey.make(keyIdentifier: "ABC123DEFG", teamIdentifier: IntakeRunTests.team).write(to: key)
      let configuration = AppConfiguration(
        id: "news", topic: "com.example.news", transport: .http2(),
        credential: .tokenKey(file: key, keyID: "ABC123DEFG", teamID: IntakeRunTests.team))
      let entry = try AppEntry(configuration, registry: ProviderTokenRegistry(), at: 0)
      let content = Array(#"{"aps":{"alert":"Hello"}}"#.utf8)
      let bytes = TokenBytes(bytes: [UInt8](repeating: 7, count: 32))
      token = try #require(bytes)
      notification = try PreparedNotification(
        PushNotification(json: content), payload: content, app: entry.configuration, kind: .token, now: 0)
      let run = IntakeRun(
        IntakeRunID(milliseconds: 1, random: 1), app: "news",
        journal: try EngineJournal.open(directory: folder.appending(path: "journal").path).journal,
        recorder: Forgetful())
      queue = IntakeRun.Queue(run, IntakeRun.limits, gauge: gauge, entry: entry, loop: loop)
    }

    /// Whether the run takes another notification in.
    func takesOne() -> Bool {
      var batch = IntakeBatch()
      batch.append(notification, token)
      return queue.enqueue(batch, batch.parts) { _ in } != nil
    }

    /// What the reader is given, which puts the chunk before into a ring first.
    func read() -> AudienceSupply? {
      if chunk.count > 0 { queue.recorded(through: chunk[chunk.count - 1].line) }
      return try? queue.fill(chunk)
    }

    func pass(_ duration: Duration) {
      let flag = Flag()
      _ = loop.schedule(at: loop.now + duration) { flag.set() }
      _ = loop.run(limit: duration * 2, stepLimit: 1_000) { flag.isSet }
    }
  }

  private final class Flag: Sendable {
    private let value = Atomic<Bool>(false)
    var isSet: Bool { value.load(ordering: .relaxed) }
    func set() { value.store(true, ordering: .relaxed) }
  }

  private struct Forgetful: IntakeRecorder {
    func began(_ run: IntakeRunID, app: String, isBridge: Bool, channel: String?) {}
    func acknowledged(_ run: IntakeRunID, through line: UInt64) {}
    func accepted(_ run: IntakeRunID, _ entries: OutcomeEntries, _ confirmation: PushWire.Confirmation) {}
    func notAccepted(
      _ run: IntakeRunID, app: String, line: UInt64, token: String, outcome: PushWire.Outcome, goneSince: UInt64?,
      isDoubted: Bool
    ) {}
    func doubted(_ run: IntakeRunID, lines: [UInt64]) {}
    func ended(_ run: IntakeRunID) {}
    func makeDurable() throws(UnsyncedList) {}
    func makeIntakeDurable() throws(UnsyncedList) {}
    func makePassedDurable() throws(UnsyncedList) {}
  }

  private func withSite(_ body: (Site) throws -> Void) throws {
    let folder = URL.temporaryDirectory.appending(path: "run-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    try body(try Site(folder))
  }

  @Test("a run that is always used makes room for another one after an hour, so that it is forgotten some day")
  func age() throws {
    try withSite { site in
      #expect(site.takesOne())
      #expect(site.read() == .entries)
      #expect(site.read() == .waiting)
      site.pass(.seconds(3599))
      #expect(site.takesOne())
      #expect(site.read() == .entries)
      #expect(site.read() == .waiting)
      site.pass(.seconds(2))
      #expect(!site.takesOne())
      #expect(site.read() == .end, "its reader ends when everything has its outcome")
    }
  }

  @Test("an old run goes on while something of it is in no lane, so that nothing overtakes that")
  func order() throws {
    try withSite { site in
      #expect(site.takesOne())
      site.pass(.seconds(3600))
      #expect(site.takesOne(), "one waits for the reader")
      #expect(site.read() == .entries)
      #expect(site.takesOne(), "the reader has not said where it put them")
      #expect(site.read() == .entries)
      #expect(site.read() == .waiting)
      site.gauge.stored.add(count: 1, byteCount: 100)
      #expect(site.takesOne(), "one waits in the journal")
      #expect(site.read() == .entries)
      #expect(site.read() == .waiting)
      site.gauge.stored.remove(count: 1, byteCount: 100)
      #expect(!site.takesOne())
    }
  }
}
