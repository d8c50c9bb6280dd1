internal import Carillon
internal import Foundation
internal import PushEngine
internal import PushWire
internal import Testing

@testable internal import CarillonCommand
@testable internal import PushSend

/// The account as a table, and progress.
struct RenderingTests {
  private var account: AccountSnapshot {
    var news = AccountSnapshot.App(id: "news \"1\"")
    news.account.submitted = 1_000_000
    news.account.confirmed = 990_000
    news.account.quiet = 8_998
    news.account.rejectedByReason = [
      "malformed token": 2, "10 shutdown": 0, "8 invalid token": 900, "closed without a reason": 1,
      "7 invalid payload size": 98,
    ]
    news.account.unknown = 1
    news.account.resent = 12
    var chat = AccountSnapshot.App(id: "chat")
    chat.account.submitted = 10
    chat.account.confirmed = 10
    return AccountSnapshot(apps: [news, chat], seconds: 2.0005)
  }

  @Test("the account as a table lists what occurred, reasons in order")
  func table() {
    let expected = """
                                  news "1"  chat
      submitted                  1,000,000    10
      accepted                     998,998    10
        confirmed                  990,000    10
        quiet                        8,998     0
      rejected                       1,001     0
        7 invalid payload size          98     0
        8 invalid token                900     0
        closed without a reason          1     0
        malformed token                  2     0
      unknown                            1     0
      sent again                        12     0

      2.00 s, 499,880 notifications/s
      """
    #expect(AccountTable.text(account) == expected, "\n\(AccountTable.text(account))")
    #expect(account.exitStatus == .findings)
    #expect(AccountSnapshot(apps: [account.apps[1]], seconds: 1).exitStatus == .success)
    #expect(AccountSnapshot(apps: [AccountSnapshot.App(id: "a")], seconds: 0).perSecond == 0)
  }

  @Test("notes and what was never read are under the table")
  func notes() {
    var account = account
    account.apps[0].failure = "no progress for 15 min: 503 ServiceUnavailable"
    account.apps[0].notes = ["503 ServiceUnavailable (1,200 times within 15 min)"]
    account.apps[1].neverRead = [
      UnreadPart(
        tokens: "b.txt",
        unread: AudienceUnread(line: 766, byteCount: 617, fileByteCount: 1000, estimatedLineCount: 1_234)),
      UnreadPart(tokens: "c.txt", unread: AudienceUnread(line: 1, byteCount: 1000, fileByteCount: 1000)),
      UnreadPart(tokens: "-", unread: AudienceUnread(line: 1_000_001)),
    ]
    let notes = """
      notifications/s

      news "1": 503 ServiceUnavailable (1,200 times within 15 min)
      chat: never read: about 1,234 of 1,999 lines of b.txt, from line 766 on (61.7 % of its bytes)
      chat: never read: c.txt, from line 1 on (100.0 % of its bytes)
      chat: never read: what comes in line 1,000,001 of standard input and after it
      """
    #expect(AccountTable.text(account).hasSuffix(notes), "\n\(AccountTable.text(account))")
  }

  private func snapshot(
    settled: Int, submitted: Int = 1000, read: Int = 50, total: Int? = 100, at seconds: Double
  ) -> ProgressSnapshot {
    ProgressSnapshot(
      submitted: submitted, settled: settled, rejected: 0, consumedByteCount: read, totalByteCount: total,
      elapsed: .milliseconds(Int64(seconds * 1000)))
  }

  @Test("a log has a line every five seconds")
  func logProgress() {
    var display = ProgressDisplay(.log)
    #expect(display.update(snapshot(settled: 10, at: 1)) == nil)
    #expect(display.update(snapshot(settled: 500, at: 5)) == "25 %, 500 settled, 100/s, about 15.0 s left\n")
    #expect(display.update(snapshot(settled: 600, at: 9.9)) == nil)
    #expect(display.update(snapshot(settled: 1000, at: 10)) == "50 %, 1,000 settled, 100/s, about 10.0 s left\n")
    // Without progress there is no estimate of the time left.
    #expect(display.update(snapshot(settled: 1000, at: 15)) == "50 %, 1,000 settled, 0/s\n")
    #expect(display.update(snapshot(settled: 1000, total: nil, at: 20)) == "1,000 settled, 0/s\n")
    #expect(display.clear().isEmpty)
  }

  private func app(_ id: String, _ obstacle: Obstacle?, settled: Int = 500, inFlight: Int = 500) -> AppProgress {
    AppProgress(id: id, settled: settled, inFlight: inFlight, obstacle: obstacle)
  }

  private func outage(_ seconds: Int, next: Int?) -> Obstacle {
    Obstacle(
      cause: "503 ServiceUnavailable", lasting: .seconds(seconds), nextTryIn: next.map { .seconds($0) },
      isOwnLimit: false)
  }

  private func waiting(_ apps: [AppProgress], at seconds: Double) -> ProgressSnapshot {
    var snapshot = snapshot(settled: 500, at: seconds)
    snapshot.apps = apps
    return snapshot
  }

  @Test("a log has the cause of a wait after five seconds, and again with each line of progress")
  func waitingInLog() {
    var display = ProgressDisplay(.log)
    #expect(display.update(waiting([app("news", outage(4, next: 2)), app("chat", nil)], at: 4)) == nil)
    #expect(
      display.update(waiting([app("news", outage(4, next: 2)), app("chat", nil, settled: 1)], at: 5))
        == "25 %, 500 settled, 100/s, about 15.0 s left\n")
    #expect(
      display.update(waiting([app("news", outage(5, next: 2)), app("chat", nil, settled: 2)], at: 6))
        == "news: waiting, 503 ServiceUnavailable since 5 s; next try in 2 s\n")
    #expect(display.update(waiting([app("news", outage(6, next: 1)), app("chat", nil, settled: 3)], at: 7)) == nil)
    #expect(
      display.update(waiting([app("news", outage(12, next: 0)), app("chat", outage(100, next: nil))], at: 10)) == """
        25 %, 500 settled, 0/s
        news: waiting, 503 ServiceUnavailable since 12 s; trying again
        chat: waiting, 503 ServiceUnavailable since 1 min 40 s

        """)
    // A cause that has ended is logged again when it returns.
    #expect(display.update(waiting([app("news", nil, settled: 501)], at: 11)) == nil)
    #expect(display.update(waiting([app("news", outage(5, next: nil))], at: 12))?.hasPrefix("news: waiting") == true)
  }

  @Test("an app with notifications in flight and no report waits for an answer; one with nothing in flight does not")
  func waitingForAnAnswer() {
    var display = ProgressDisplay(.log)
    #expect(display.update(waiting([app("news", nil), app("chat", nil, inFlight: 0)], at: 1)) == nil)
    _ = display.update(waiting([app("news", nil), app("chat", nil, inFlight: 0)], at: 5))
    #expect(
      display.update(waiting([app("news", nil), app("chat", nil, inFlight: 0)], at: 6))
        == "news: waiting, no answer since 5 s\n")
    let fresh = Obstacle(
      cause: "the connection was reset", lasting: .seconds(1), nextTryIn: .seconds(3), isOwnLimit: false)
    #expect(
      display.update(waiting([app("news", fresh), app("chat", nil, inFlight: 0)], at: 10))?.hasSuffix(
        "news: waiting, the connection was reset since 9 s\n")
        == true)
  }

  @Test("a limit of the app itself is shown, although the app makes progress")
  func heldBack() {
    var display = ProgressDisplay(.log)
    let limit = Obstacle(
      cause: "3000 connections per minute are in use", lasting: .seconds(7), nextTryIn: nil, isOwnLimit: true)
    #expect(
      display.update(waiting([app("news", limit, settled: 1)], at: 4))
        == "news: held back, 3000 connections per minute are in use\n")
  }

  @Test("on a terminal the app that has waited longest replaces the progress bar", arguments: [120, 80, 60, 20])
  func waitingOnTerminal(columns: Int) throws {
    var display = ProgressDisplay(.terminal(columns: columns))
    let apps = [app("news", outage(12, next: 4)), app("chat", outage(90, next: 4)), app("idle", nil, inFlight: 0)]
    let text = display.update(waiting(apps, at: 90))
    let drawn = try #require(text)
    let line = String(drawn.dropFirst().dropLast(3))
    let sentence = "chat: waiting, 503 ServiceUnavailable since 1 min 30 s; next try in 4 s (and 1 more)"
    switch columns {
    case 120: #expect(line == "25 %, 500 settled; \(sentence)")
    default: #expect(line == sentence.prefix(columns - 1))
    }
    #expect(display.update(waiting([app("news", nil, settled: 501)], at: 91))?.contains("[#") == (columns >= 60))
  }

  @Test("a resumed campaign shows the rate and the time left of this process")
  func resumedProgress() {
    func resumed(settled: Int, at seconds: Double) -> ProgressSnapshot {
      var resumed = snapshot(settled: settled, read: 100, at: seconds)
      resumed.settledBefore = 500
      resumed.fractionBefore = 0.5
      return resumed
    }
    var display = ProgressDisplay(.log)
    #expect(display.update(resumed(settled: 750, at: 5)) == "75 %, 750 settled, 50/s, about 5.00 s left\n")
    #expect(display.update(resumed(settled: 875, at: 10)) == "87 %, 875 settled, 25/s, about 4.00 s left\n")
    var stuck = ProgressDisplay(.log)
    #expect(stuck.update(resumed(settled: 500, at: 5)) == "50 %, 500 settled, 0/s\n")
  }

  @Test(
    "on a terminal there is one line that fits, redrawn in place and cleared at the end",
    arguments: [200, 80, 60, 40, 10])
  func terminalProgress(columns: Int) throws {
    var display = ProgressDisplay(.terminal(columns: columns))
    let first = display.update(snapshot(settled: 500, at: 2))
    let drawn = try #require(first)
    #expect(drawn.hasPrefix("\r"))
    #expect(drawn.hasSuffix("\u{1B}[K"))
    let line = drawn.dropFirst().dropLast(3)
    #expect(line.count < columns)
    if columns >= 80 {
      #expect(line.hasPrefix("["), "\(line)")
      #expect(line.hasSuffix("] 25 %  500 settled, 250/s, about 6.00 s left"), "\(line)")
    }
    #expect(display.update(snapshot(settled: 510, at: 2.05)) == nil)
    #expect(display.update(snapshot(settled: 510, at: 2.1)) != nil)
    #expect(display.clear() == "\r\u{1B}[K")
    #expect(display.clear().isEmpty)
  }

  @Test("the status of apps fits the terminal, and what needs somebody comes first")
  func status() throws {
    let json = """
      {"items":[
        {"id":"news","state":"running","connections":{"open":2},"queue":{"notifications":0,"oldestSeconds":0},
         "inFlight":7,
         "rates":{"settledPerSecond":12345.6}},
        {"id":"com.example.weather.an-app-with-a-name-that-is-long","state":"running","waitsFor":"connection refused",
         "connections":{"open":0},"queue":{"notifications":1234567,"oldestSeconds":7300},
         "credentialExpiresAt":"2027-06-01T00:00:00.000Z"},
        {"id":"chat","state":"paused","connections":{"open":0},"queue":{"notifications":3,"oldestSeconds":61},
         "credentialExpiresAt":"2027-01-05T12:00:00.000Z"},
        {"id":"bank","state":"suspended","reason":"the gateway refused the credential with 403 InvalidProviderToken, \
      which means that the key is not one of the team's"}
      ]}
      """
    let apps = try ServiceReply(status: 200, headers: [:], body: Array(json.utf8)).decoded(ServiceStatus.self).items
    // 1 January 2027.
    let now: Int64 = 1_798_761_600
    let lines = ServiceStatus.lines(apps, columns: 80, now: now)
    #expect(lines.allSatisfy { $0.count <= 80 }, "\(lines)")
    #expect(lines[0] == "4 apps: 1 suspended, 1 waiting, 1 paused, 1 running")
    #expect(lines.count == 10)
    #expect(lines[3].hasPrefix("bank "))
    #expect(lines[4] == "  The gateway refused the credential with 403 InvalidProviderToken, which means")
    #expect(lines[6].contains(/^com\.example\.weather\.[^ ]*… +waiting +0 +- +1,234,567 +2 h +2027-06-01$/))
    #expect(lines[7] == "  Waits: connection refused.")
    #expect(lines[8].contains(/^chat +paused +0 +- +3 +61 s +4 days left$/))
    #expect(lines[9].contains(/^news +running +2 +12,346\/s +7 +0 s$/))
    // As wide as it likes, with every name.
    #expect(ServiceStatus.lines(apps, columns: nil, now: now).contains { $0.contains("name-that-is-long ") })
    let few = ServiceStatus.lines(apps, columns: 80, rows: 8, now: now)
    #expect(few.count <= 8)
    #expect(few.last == "… 3 more apps")
    #expect(ServiceStatus.lines([], columns: 80, now: now).first == "0 apps")
  }
}
