internal import HTTPTypes
internal import Hummingbird
internal import NIOCore
internal import PushEngine
internal import PushService
internal import PushStore
internal import PushTransport
internal import PushWire
internal import Support
internal import Testing

@testable internal import Carillon
@testable internal import PushServer

@Suite("Parts of the dashboard")
struct DashboardPartTests {
  @Test("whatever is put into a page is escaped, unless it is HTML")
  func escaping() {
    let hostile = #"<script>alert("1")</script> & 'x'"#
    let row: HTML = "<td title=\"\(hostile)\">\(hostile)</td>"
    let escaped = "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; &amp; &#39;x&#39;"
    #expect(row.text == "<td title=\"\(escaped)\">\(escaped)</td>")
    let twice: HTML = "<tr>\(row)\([row, row])\(7)\(hostile.prefix(8))</tr>"
    #expect(twice.text == "<tr>\(row.text)\(row.text)\(row.text)7&lt;script&gt;</tr>")
    // Neither a control character nor one that turns the text round reaches a page.
    let controls: HTML = "\("a\u{0}b\u{1B}c\u{202E}d\u{2066}e\n\t")"
    #expect(controls.text == "a\u{FFFD}b\u{FFFD}c\u{FFFD}d\u{FFFD}e\n\t")
    // A grapheme that begins with a character of HTML is still one.
    #expect(("\("<\u{301}b")" as HTML).text == "&lt;\u{301}b")
    #expect("a/b?ü\"".asPathSegment == "a%2Fb%3F%C3%BC%22")
  }

  @Test(
    "forms are decoded strictly",
    arguments: [
      ("a=1&b=two+words&a=%C3%BC", ["a": ["1", "ü"], "b": ["two words"]]), ("", [:]), ("a", ["a": [""]]),
      ("a==%3D", ["a": ["=="]]),
    ] as [(String, [String: [String]])])
  func forms(text: String, fields: [String: [String]]) throws {
    let form = try #require(FormBody(parsing: Array(text.utf8)))
    for (name, values) in fields { #expect(form.all(name) == values) }
    #expect(form["none"].isEmpty)
  }

  @Test("a malformed form is refused", arguments: ["a=%", "a=%4", "a=%zz", "%ff=1", "a=%C3"])
  func malformedForms(text: String) {
    #expect(FormBody(parsing: Array(text.utf8)) == nil)
  }

  @Test("a form has a bounded number of fields and bytes")
  func longForms() {
    #expect(FormBody(parsing: Array(repeating: UInt8(ascii: "a"), count: FormBody.byteCountLimit + 1)) == nil)
    #expect(FormBody(parsing: Array(String(repeating: "a=1&", count: 257).utf8)) == nil)
  }

  /// A request of a browser that has this cookie.
  private func request(_ cookie: String) -> Request {
    Request(
      head: HTTPRequest(
        method: .get, scheme: nil, authority: nil, path: "/",
        headerFields: [.cookie: "\(DashboardForm.sessionCookie)=\(cookie)"]),
      body: RequestBody(buffer: ByteBuffer()))
  }

  @Test("a session lasts its time, at every service that shares the store, and the store has no secret of it")
  func sessions() async throws {
    let (store, clock) = (SimulatedStore(StoreDisk()), ManualClock())
    let (here, there) = (DashboardSessions(store: store, clock: clock), DashboardSessions(store: store, clock: clock))
    let cookie = try await here.begin(keyID: "k")
    let session = try #require(try await here.session(of: request(cookie)))
    #expect(session.keyID == "k")
    #expect(try await there.session(of: request(cookie)) == session)
    #expect(try await there.session(of: request("two")) == nil)
    let stored = try await store.sessions()
    #expect(stored.map(\.keyID) == ["k"])
    for secret in [cookie, session.formToken] {
      #expect(stored.allSatisfy { Digest.hexadecimal($0.digest) != secret })
    }
    let other = try await there.begin(keyID: "k")
    #expect(try await here.session(of: request(other))?.formToken != session.formToken)
    clock.advance(by: .seconds(1))
    try await here.end(cookie)
    #expect(try await here.session(of: request(cookie)) == nil)
    clock.advance(by: .seconds(1))
    #expect(try await there.session(of: request(cookie)) == nil)
    #expect(try await there.session(of: request(other)) != nil)
    clock.advance(by: .seconds(DashboardSessions.lifetime))
    #expect(try await there.session(of: request(other)) == nil)
    _ = try await here.begin(keyID: "k")
    #expect(try await store.sessions().count == 1, "what is over is removed")
    #expect(DashboardSessions.secret() != DashboardSessions.secret())
    #expect("abc".isSameSecret(as: "abc"))
    #expect(!"abc".isSameSecret(as: "abd"))
    #expect(!"abc".isSameSecret(as: "ab"))
  }

  @Test("the number of sessions is bounded, and however often one key logs in, the others stay logged in")
  func crowd() {
    var sessions: [StoredSession] = []
    func begin(_ index: Int, _ keyID: String) {
      let ended = DashboardSessions.ended(by: keyID, among: sessions, now: StoreInstant(milliseconds: 0))
      sessions.removeAll { ended.contains($0) }
      sessions.append(
        StoredSession(
          digest: Digest.sha256(Array("\(index)".utf8)), keyID: keyID,
          expiresAt: StoreInstant(milliseconds: Int64(index + 1))))
    }
    for index in 0..<2 * DashboardSessions.keyLimit { begin(index, "k") }
    #expect(sessions.count == DashboardSessions.keyLimit)
    #expect(sessions.first?.expiresAt == StoreInstant(milliseconds: Int64(DashboardSessions.keyLimit + 1)))
    sessions = []
    let limit = DashboardSessions.limit
    for index in 0...limit { begin(index, "k\(index / 10)") }
    #expect(sessions.count == limit)
    #expect(sessions.last?.keyID == "k\(limit / 10)")
    for index in 0...limit { begin(limit + 1 + index, "busy") }
    #expect(sessions.count == limit)
    #expect(sessions.count { $0.keyID == "busy" } <= DashboardSessions.keyLimit)
    #expect(sessions.last?.expiresAt == StoreInstant(milliseconds: Int64(2 * limit + 2)))
    #expect(sessions.contains { $0.keyID == "k\(limit / 10)" })
  }

  @Test("failed logins are logged ten at once and ten a minute, and the rest are counted")
  func failedLogins() {
    let limit = FailureLimit()
    #expect((0..<25).compactMap { _ in limit.admit(now: .start) } == Array(repeating: 0, count: 10))
    let later = Instant.start + .seconds(31)
    #expect((0..<25).compactMap { _ in limit.admit(now: later) } == [15, 0, 0, 0, 0])
  }

  @Test(
    "a name that is not the service's is refused; addresses are its own",
    arguments: [
      ("127.0.0.1:8480", true), ("localhost", true), ("LOCALHOST:1", true), ("[::1]:8480", true), ("192.0.2.7", true),
      ("push.example.com:443", true), ("evil.example:8480", false), ("127.0.0.1.evil.example", false),
      ("300.0.0.1", false), ("", false), (nil, false), ("[::1", false), ("a:b:c", false),
    ] as [(String?, Bool)])
  func hosts(host: String?, isKnown: Bool) {
    #expect(BrowserCheck(names: ["push.example.com"]).knows(host: host) == isKnown)
  }

  @Test("a form counts only from a page of the same host")
  func origins() {
    let check = BrowserCheck()
    let host = "localhost:8480"
    #expect(check.isOwn(origin: "http://localhost:8480", fetchSite: nil, host: host))
    #expect(check.isOwn(origin: "https://LOCALHOST:8480", fetchSite: "cross-site", host: host))
    #expect(check.isOwn(origin: nil, fetchSite: "same-origin", host: host))
    #expect(!check.isOwn(origin: nil, fetchSite: nil, host: host))
    #expect(!check.isOwn(origin: nil, fetchSite: "same-site", host: host))
    #expect(!check.isOwn(origin: "null", fetchSite: "same-origin", host: host))
    #expect(!check.isOwn(origin: "http://localhost:8481", fetchSite: "same-origin", host: host))
    #expect(!check.isOwn(origin: "http://evil.example", fetchSite: "same-origin", host: host))
    #expect(!check.isOwn(origin: "ftp://localhost:8480", fetchSite: nil, host: host))
  }

  @Test("a rate is what was counted over the last minute")
  func rates() {
    var window = RateWindow()
    let start = Instant(nanoseconds: 5)
    #expect(window.perSecond == 0)
    window.add(1000, now: start)
    #expect(window.perSecond == 0)
    window.add(1100, now: start + .seconds(5))
    #expect(window.perSecond == 20)
    for index in 2...40 { window.add(1100, now: start + .seconds(5 * index)) }
    #expect(window.perSecond == 0)
    // An app that was removed and added again starts with nothing.
    window.add(5, now: start + .seconds(300))
    #expect(window.perSecond == 0)
  }

  @Test("how much of a campaign is done, and how long the rest takes at the pace of the last minute")
  func timeLeft() throws {
    let record = StoredCampaign(
      id: StoredUUID(high: 1, low: 2), app: "news", state: "running", content: [],
      createdAt: StoreInstant(milliseconds: 0)
    ).head
    var report = CampaignReport(record: record)
    #expect(report.share == nil)
    #expect(report.secondsLeft == nil)
    // Half of it is read, and half of that has its outcome.
    report.fraction = 0.5
    report.account.submitted = 100
    report.account.confirmed = 50
    report.pace = 2
    #expect(report.share == 0.25)
    #expect(report.secondsLeft == 75)
    // Stored devices have no file, but a number.
    report.fraction = nil
    #expect(report.share == nil)
    report.record.audienceCount = 400
    #expect(report.total == 400)
    #expect(report.share == 0.125)
    #expect(report.secondsLeft == 175)
    report.isWaiting = true
    #expect(report.secondsLeft == nil)
    report.isWaiting = false
    report.pace = 0
    #expect(report.secondsLeft == nil)
    report.pace = 1e-12
    #expect(report.secondsLeft == nil)
    report.pace = 2
    report.nextPartAt = StoreInstant(milliseconds: 5)
    #expect(report.secondsLeft == nil)
    report.nextPartAt = nil
    for state in ["paused", "held", "cancelled"] {
      report.record.state = state
      #expect(report.secondsLeft == nil)
      #expect(report.share == 0.125)
    }
    report.record.state = "finished"
    #expect((report.total, report.share) == (100, 1))

    let statistics = ServiceStatistics(journalDirectory: "/", storePath: "/nowhere/store.db")
    let start = Instant(nanoseconds: 5)
    for index in 0...3 { statistics.sample([(record.id, 100 * index)], now: start + .seconds(5 * index)) }
    #expect(statistics.pace(record.id) == 20)
    // Nothing has got an outcome for ten seconds: the minute before says nothing of the rest.
    statistics.sample([(record.id, 300)], now: start + .seconds(20))
    #expect(statistics.pace(record.id) == 15)
    statistics.sample([(record.id, 300)], now: start + .seconds(25))
    #expect(statistics.pace(record.id) == 0)
    statistics.sample([(record.id, 310)], now: start + .seconds(30))
    #expect(statistics.pace(record.id) > 0)
    #expect(statistics.fullerDisk?.of == "journal", "the other one cannot be found out")
    // It was paused for a while: what it did before does not count.
    statistics.sample([], now: start + .seconds(40))
    statistics.sample([(record.id, 330)], now: start + .seconds(45))
    #expect(statistics.pace(record.id) == 0)
  }

  @Test("what is wrong is alarming, the worst first")
  func alarms() {
    let now: Int64 = 1_800_000_000
    func status(_ change: (inout AppStatusSnapshot) -> Void) -> AppStatusSnapshot {
      var status = AppStatusSnapshot()
      change(&status)
      return status
    }
    let calm = status { $0.credentialExpiry = now + 31 * 86_400 }
    let statuses: [(String, AppStatusSnapshot, [Alarm.Name])] = [
      ("calm", calm, []), ("paused", status { $0.state = .paused }, [.appPaused]),
      (
        "suspended",
        status {
          $0.state = .suspended
          $0.reason = "the gateway refused the certificate"
        }, [.appSuspended]
      ),
      ("stopped", status { $0.state = .stopped }, [.appStopped]),
      ("soon", status { $0.credentialExpiry = now + 20 * 86_400 }, [.credentialExpiresSoon]),
      ("expired", status { $0.credentialExpiry = now - 1 }, [.credentialExpired]),
      ("old", status { $0.queue.oldestAge = .seconds(90) }, [.queueOld]),
      ("stuck", status { $0.campaignStall = .seconds(90) }, [.campaignStuck]),
    ]
    // What waits is part of the alarm that says why.
    let stuck = status {
      $0.state = .paused
      $0.queue.oldestAge = .seconds(90)
      $0.queue.notifications = 1000
      $0.windowNotifications = 234
    }
    let paused = AlarmRules.alarms(
      [("stuck", stuck)], pausedAt: ["stuck": now - 3 * 3600], journalFailure: nil, disk: nil, now: now)
    #expect(paused.map(\.text) == ["It was paused by hand 3 h ago."])
    #expect(paused.first?.action.hasPrefix("1,234 notifications wait, the oldest for 90 s. ") == true)
    // What waits is a campaign's, which has no queue.
    let campaign = AlarmRules.alarms(
      [
        (
          "news",
          status {
            $0.obstacle = Obstacle(cause: "refused", lasting: .seconds(75), nextTryIn: nil, isOwnLimit: false)
            $0.windowNotifications = 500
            $0.campaignStall = .seconds(74)
          }
        )
      ], journalFailure: nil, disk: nil, now: 0)
    #expect(campaign.map(\.name) == [.nothingGetsThrough])
    #expect(campaign.first?.action.hasPrefix("500 notifications wait, the oldest for 74 s. ") == true)
    for (app, status, names) in statuses {
      let found = AlarmRules.alarms([(app, status)], journalFailure: nil, disk: nil, now: now)
      #expect(found.map(\.name) == names, "\(app)")
      for alarm in found {
        #expect(alarm.text.hasSuffix("."))
        #expect(alarm.action.hasSuffix("."))
      }
    }
    let all = AlarmRules.alarms(
      statuses.map { ($0.0, $0.1) }, journalFailure: "no space left on device", storeAway: .seconds(70),
      disk: FreeSpace(of: "store", byteCount: 5), now: now)
    #expect(all.count == 10)
    #expect(all.contains { $0.name == .storeAway })
    #expect(all.first?.name == .journalFailed)
    #expect(all.contains { $0.text == "The disk of the store has 5 B left." })
    #expect(all.map(\.severity) == all.map(\.severity).sorted(by: >))
    #expect(
      AlarmRules.alarms(
        [], journalFailure: nil, disk: FreeSpace(of: "journal", byteCount: 2 << 30), now: now
      ).isEmpty)
  }

  @Test("nodes that are silent or lost, clocks that are apart, and configurations that differ raise alarms")
  func nodeAlarms() {
    func node(_ name: String, _ change: (inout StoredNode) -> Void = { _ in }) -> StoredNode {
      var node = StoredNode(name: name, incarnation: 1, beat: 1, isAlive: true)
      (node.facts.configuration, node.facts.clockOffset) = ("a", .milliseconds(300))
      change(&node)
      return node
    }
    let leader = node("n1") { $0.leads = true }
    func alarms(_ nodes: [StoredNode], _ database: DatabaseState? = nil) -> [Alarm] {
      AlarmRules.alarms([], journalFailure: nil, nodes: [leader] + nodes, database: database, disk: nil, now: 0)
    }
    #expect(alarms([node("n2"), node("n3") { $0.isAlive = false }, node("n4") { $0.isDraining = true }]).isEmpty)
    #expect(alarms([node("n2") { $0.silence = .seconds(5) }]).isEmpty)
    let found: [(StoredNode, Alarm.Name, String)] = [
      (node("n2") { $0.silence = .seconds(6) }, .nodeSilent, "n2 has been silent for 6 s"),
      (node("n2") { ($0.isAlive, $0.isLost) = (false, true) }, .nodeSilent, "n2 was silent"),
      (node("n2") { $0.facts.clockOffset = .milliseconds(1_100) }, .clocksApart, "1 s apart"),
      (node("n2") { $0.facts.clockOffset = .milliseconds(-800) }, .clocksApart, "1 s apart"),
      (node("n2") { $0.facts.configuration = "b" }, .configurationsDiffer, "of n2 is not"),
    ]
    for (node, name, text) in found {
      let alarm = alarms([node])
      #expect(alarm.map(\.name) == [name])
      #expect(alarm.first?.text.contains(text) == true, "\(alarm)")
    }
    for (standbys, synchronous, isAlarm) in [(0, 0, false), (1, 0, true), (2, 1, false)] {
      let state = DatabaseState(
        standbyCount: standbys, synchronousStandbyCount: synchronous, transactionAge: nil, liveRowCount: 0,
        deadRowCount: 0)
      #expect(alarms([], state).map(\.name) == (isAlarm ? [.databaseUnreplicated] : []))
    }
  }

  @Test("the digest of a configuration is that of apps and settings, not of the paths of files")
  func configurationDigest() throws {
    func digest(_ settings: String, retention: Duration = .seconds(60)) throws -> String {
      let read = try ServerConfiguration.parse(
        """
        journal: { directory: j }
        apps:
          - { id: a, topic: com.example.a, transport: http2, \(settings) }
        """, file: "/etc/c.yaml")
      return NodeDescription.digest(
        Dictionary(uniqueKeysWithValues: read.tenants.map { ($0.id, $0) }), retention: retention)
    }
    let key = "credential: { key: /x/AuthKey_ABC123DEFG.p8, team-id: DEF123GHIJ }"
    let plain = try digest(key)
    #expect(plain.count == 12)
    #expect(try digest(key.replacing("/x/", with: "/y/") + ", trust: /z/ca.pem") == plain)
    #expect(try digest(key, retention: .seconds(61)) != plain)
    #expect(try digest(key.replacing("ABC123DEFG", with: "OTHER12345")) != plain)
    for other in ["rate-limit: 10/s", "quiet-hours: \"22:00-08:00\"", "queue: { bytes: 1MiB }", "attempts: 3"] {
      #expect(try digest("\(key), \(other)") != plain, "\(other)")
    }
  }
}
