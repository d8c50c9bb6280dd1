internal import PushWire
internal import Testing

@testable internal import PushServer

@Suite("Limits of uploads")
struct UploadLimitsTests {
  @Test("a body has its allowance, and the time that its bytes take at the lowest rate")
  func pace() {
    let pace = UploadPace(beganAt: Instant(nanoseconds: 7), allowance: .seconds(2))
    let start = Instant(nanoseconds: 7)
    #expect(!pace.isTooSlow(byteCount: 0, now: start + .seconds(2)))
    #expect(pace.isTooSlow(byteCount: 0, now: start + .milliseconds(2_001)))
    #expect(!pace.isTooSlow(byteCount: 40_960, now: start + .seconds(12)))
    #expect(pace.isTooSlow(byteCount: 40_960, now: start + .milliseconds(12_001)))
  }

  private static func take(_ body: inout BodyMemory.Body, _ byteCount: Int) -> BodyMemory.Refusal? {
    do throws(BodyMemory.Refusal) {
      try body.take(byteCount)
      return nil
    } catch {
      return error
    }
  }

  /// 224 MiB for large bodies, of which a key beside others has 56.
  @Test("large bodies of one key end at its share; other keys and its own small bodies have room")
  func shares() {
    let memory = BodyMemory(limit: 256 << 20)
    var first = BodyMemory.Body(memory, owner: "a", announced: 16 << 20)
    var second = BodyMemory.Body(memory, owner: "a", announced: 16 << 20)
    var third = BodyMemory.Body(memory, owner: "a", announced: 40 << 20)
    let taken = [Self.take(&first, 16 << 20), Self.take(&second, 16 << 20), Self.take(&third, 40 << 20)]
    #expect(taken == [nil, nil, .share])
    var small = BodyMemory.Body(memory, owner: "a", announced: 100)
    var other = BodyMemory.Body(memory, owner: "b", announced: 190 << 20)
    let beside = [Self.take(&small, 100), Self.take(&other, 190 << 20)]
    #expect(beside == [nil, nil], "one body may be larger than a share")
    var late = BodyMemory.Body(memory, owner: "c", announced: 16 << 20)
    var lateAndSmall = BodyMemory.Body(memory, owner: "c", announced: 1)
    let full = [Self.take(&late, 16 << 20), Self.take(&lateAndSmall, 1)]
    #expect(full == [.full, nil])
  }

  @Test("a body that grows beyond a small one counts as large, and what ends makes room")
  func growth() {
    let memory = BodyMemory(limit: 1 << 20)
    for _ in 0..<3 {
      var body = BodyMemory.Body(memory, owner: "a", announced: 0)
      let small = Self.take(&body, 64 << 10)
      let large = Self.take(&body, 832 << 10)
      let more = Self.take(&body, 1)
      #expect([small, large, more] == [nil, nil, .full])
    }
  }

  @Test("a client that takes nothing of what waits is stalled; one that takes little is not")
  func writing() {
    let start = Instant(nanoseconds: 7)
    var progress = ReadingProgress(limit: .seconds(2), 0, now: start)
    let nothingWaits = progress.isStalled(100, isBusy: true, now: start + .seconds(9))
    let begins = progress.isStalled(100, isBusy: false, now: start + .seconds(10))
    let reads = progress.isStalled(101, isBusy: false, now: start + .seconds(12))
    let stays = progress.isStalled(101, isBusy: false, now: start + .seconds(14))
    #expect([nothingWaits, begins, reads, stays] == [false, false, false, true])
  }

  @Test("names that begin as a loopback address are none")
  func loopback() {
    let hosts = ["127.0.0.1", "127.9.9.9", "::1", "localhost", "127.evil.com", "127.0.0.1.evil.com", "128.0.0.1"]
    let isLoopback = hosts.map { Listen(host: $0, port: 1).isLoopback }
    #expect(isLoopback == [true, true, true, true, false, false, false])
  }

  @Test("a limit of open files below what the configuration can use is a warning of the check")
  func openFiles() {
    var check = ServeCheck()
    check.addOpenFiles(1_000, limit: 1_000)
    #expect(check.warnings.isEmpty)
    check.addOpenFiles(1_001, limit: 1_000)
    #expect(check.warnings.map(\.subject) == ["open files"])
    let isRaised = OpenFileLimit.raise() == OpenFileLimit.hard
    #expect(isRaised)
  }
}
