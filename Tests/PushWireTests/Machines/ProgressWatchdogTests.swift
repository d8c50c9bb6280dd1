internal import Testing

@testable internal import PushWire

@Suite("ProgressWatchdog")
struct ProgressWatchdogTests {
  private func at(_ seconds: Double) -> Instant { Instant(nanoseconds: UInt64(seconds * 1e9)) }

  @Test("trouble begins with the first report, keeps the last cause, and ends with progress")
  func beginsAndEnds() throws {
    var machine = ProgressWatchdog(patience: .seconds(100))
    #expect(machine.trouble == nil)
    #expect(machine.troubled("503 ServiceUnavailable", .answer, nextTryAt: at(3), now: at(1)) == at(2))
    #expect(machine.troubled("500 InternalServerError", .answer, nextTryAt: at(9), now: at(5)) == nil)
    #expect(machine.trouble == .init(cause: "500 InternalServerError", since: at(1), nextTryAt: at(9), count: 2))
    machine.progressed()
    #expect(machine.trouble == nil)
    // The check that was planned at 1 s will see it.
    #expect(machine.troubled("503 ServiceUnavailable", .answer, nextTryAt: nil, now: at(50)) == nil)
    #expect(machine.trouble?.since == at(50))
    #expect(machine.check(now: at(50), hasWork: true) == .again(at: at(51)))
    machine.progressed()
    #expect(machine.check(now: at(51), hasWork: true) == .calm)
    var impatient = ProgressWatchdog(patience: .milliseconds(300))
    #expect(impatient.troubled("503 ServiceUnavailable", .answer, nextTryAt: nil, now: at(1)) == at(1.3))
    #expect(machine.troubled("503 ServiceUnavailable", .answer, nextTryAt: nil, now: at(60)) == at(61))
  }

  @Test("of the attempts that several lanes plan, the earliest future one counts")
  func nextTry() {
    var machine = ProgressWatchdog(patience: .seconds(100))
    _ = machine.troubled("a", .ending, nextTryAt: at(30), now: at(0))
    _ = machine.troubled("a", .ending, nextTryAt: at(10), now: at(1))
    #expect(machine.trouble?.nextTryAt == at(10))
    _ = machine.troubled("a", .ending, nextTryAt: at(20), now: at(2))
    #expect(machine.trouble?.nextTryAt == at(10))
    _ = machine.troubled("a", .ending, nextTryAt: nil, now: at(3))
    #expect(machine.trouble?.nextTryAt == at(10))
    _ = machine.troubled("a", .ending, nextTryAt: at(40), now: at(10))
    #expect(machine.trouble?.nextTryAt == at(40), "the attempt at 10 s has been made")
  }

  /// What says most stays; a service that refuses a token closes the connection as well.
  @Test("a cause that says less does not hide one that says more, until that is a minute old")
  func evidence() {
    var machine = ProgressWatchdog(patience: .seconds(900))
    _ = machine.troubled("the connection was reset", .ending, nextTryAt: nil, now: at(0))
    _ = machine.troubled("the network is unreachable", .failure, nextTryAt: nil, now: at(1))
    #expect(machine.trouble?.cause == "the network is unreachable")
    for second in stride(from: 2.0, to: 500, by: 7) {
      _ = machine.troubled("403 ExpiredProviderToken", .answer, nextTryAt: nil, now: at(second))
      _ = machine.troubled("the connection was closed without an answer", .ending, nextTryAt: nil, now: at(second))
      _ = machine.troubled("the service does not answer requests", .silence, nextTryAt: nil, now: at(second + 3))
      #expect(machine.trouble?.cause == "403 ExpiredProviderToken", "at \(second) s")
    }
    _ = machine.troubled("503 ServiceUnavailable", .answer, nextTryAt: nil, now: at(500))
    #expect(machine.trouble?.cause == "503 ServiceUnavailable", "the last of those that say as much")
    _ = machine.troubled("the network is unreachable", .failure, nextTryAt: nil, now: at(560))
    #expect(machine.trouble?.cause == "503 ServiceUnavailable")
    _ = machine.troubled("the network is unreachable", .failure, nextTryAt: nil, now: at(561))
    #expect(machine.trouble?.cause == "the network is unreachable")
    #expect(machine.trouble?.since == at(0))
    #expect(machine.notes.map(\.cause).contains("the connection was closed without an answer"))
  }

  @Test("patience runs from the beginning of the trouble, for any causes, and restarts after progress")
  func patience() {
    var machine = ProgressWatchdog(patience: .seconds(900))
    #expect(machine.check(now: at(0), hasWork: true) == .calm)
    _ = machine.troubled("the connection was reset", .ending, nextTryAt: nil, now: at(10))
    var now = at(10)
    var looks = 0
    while case .again(let next) = machine.check(now: now, hasWork: true) {
      #expect(next > now)
      #expect(next <= now + .seconds(1))
      now = next
      looks += 1
      if looks == 500 { _ = machine.troubled("503 ServiceUnavailable", .answer, nextTryAt: nil, now: now) }
    }
    #expect(now == at(910))
    #expect(looks >= 900)
    #expect(machine.check(now: now, hasWork: true) == .giveUp("no progress for 15 min: 503 ServiceUnavailable"))

    machine.progressed()
    #expect(machine.check(now: now, hasWork: true) == .calm)
    _ = machine.troubled("503 ServiceUnavailable", .answer, nextTryAt: nil, now: at(2000))
    #expect(machine.check(now: at(2000), hasWork: true) == .again(at: at(2001)))
    #expect(machine.check(now: at(2899.5), hasWork: true) == .again(at: at(2900)))
  }

  @Test(
    "without progress the pauses double, from the patience or a minute up to 15 minutes, and begin anew after progress",
    arguments: [(900, [60, 120, 240, 480, 900, 900]), (1, [1, 2, 4, 8, 16, 16])])
  func retryPauses(patience: Int, expected: [Int]) {
    var machine = ProgressWatchdog(patience: .seconds(patience))
    for _ in 0..<2 {
      #expect(!machine.isRetrying)
      for pause in expected {
        #expect(machine.retryPause() == .seconds(pause))
        machine.restarted()
        #expect(machine.isRetrying)
      }
      for _ in 0..<100 { #expect(machine.retryPause() <= .seconds(900)) }
      machine.progressed()
    }
  }

  @Test("an app without work is not in trouble")
  func withoutWork() {
    var machine = ProgressWatchdog(patience: .seconds(10))
    _ = machine.troubled("the connection was reset", .ending, nextTryAt: nil, now: at(0))
    #expect(machine.check(now: at(20), hasWork: false) == .calm)
    #expect(machine.trouble == nil)
    #expect(machine.troubled("the connection was reset", .ending, nextTryAt: nil, now: at(3000)) == at(3001))
    #expect(machine.check(now: at(3001), hasWork: true) == .again(at: at(3002)))
  }

  @Test("the app's own limit uses no patience, and is shown until shortly after its end")
  func delays() {
    var machine = ProgressWatchdog(patience: .seconds(10))
    _ = machine.troubled("the connection was reset", .ending, nextTryAt: nil, now: at(0))
    machine.delayed("waiting for a new provider token", until: at(60), now: at(1))
    #expect(machine.check(now: at(59.5), hasWork: true) == .again(at: at(60)))
    #expect(machine.check(now: at(60), hasWork: true) == .giveUp("no progress for 1 min: the connection was reset"))
    #expect(machine.delay(now: at(30)) == .init(cause: "waiting for a new provider token", since: at(1), until: at(60)))
    #expect(machine.delay(now: at(70)) == nil)
    for second in 100..<110 {
      machine.delayed("60 connections per minute are in use", until: at(Double(second) + 1), now: at(Double(second)))
    }
    #expect(
      machine.delay(now: at(109))
        == .init(cause: "60 connections per minute are in use", since: at(100), until: at(110))
    )
  }

  @Test("each distinct cause is one note, and there are no more than twenty")
  func notes() {
    var machine = ProgressWatchdog(patience: .seconds(1000))
    for second in 0..<30 {
      _ = machine.troubled("503 ServiceUnavailable", .answer, nextTryAt: nil, now: at(Double(second)))
      _ = machine.troubled("cause \(second)", .ending, nextTryAt: nil, now: at(Double(second)))
      machine.progressed()
    }
    #expect(machine.notes.count == 20)
    #expect(machine.unlistedCount == 11)
    #expect(machine.notes.first == .init(cause: "503 ServiceUnavailable", first: at(0), last: at(29), count: 30))
    #expect(machine.notes.last?.cause == "cause 18")
  }

  @Test("the peer's text is made printable and cut off")
  func printable() {
    var machine = ProgressWatchdog(patience: .seconds(1000))
    _ = machine.troubled("a\u{1B}[2J\u{202E}b", .ending, nextTryAt: nil, now: at(0))
    #expect(machine.trouble?.cause == #"a\u{1b}[2J\u{202e}b"#)
    #expect(machine.notes.map(\.cause) == [#"a\u{1b}[2J\u{202e}b"#])
    _ = machine.troubled(String(repeating: "x", count: 5000), .ending, nextTryAt: nil, now: at(0))
    #expect(machine.trouble?.cause == String(repeating: "x", count: 200) + "…")
  }

  @Test(
    "durations in messages",
    arguments: [
      (Duration.milliseconds(900), "0 s"), (.seconds(59), "59 s"), (.seconds(60), "1 min"), (.seconds(900), "15 min"),
      (.seconds(904), "15 min 4 s"),
      (.seconds(3600), "1 h"), (.seconds(7500), "2 h 5 min"),
    ])
  func spoken(_ duration: Duration, _ text: String) {
    #expect(duration.spoken == text)
  }
}
