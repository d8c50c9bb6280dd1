internal import Glibc
internal import NIOCore
internal import NIOEmbedded
internal import PushTransport
internal import PushWire
internal import Synchronization
internal import Testing

@Suite("A shortage of file descriptors")
struct DescriptorReserveTests {
  private static let lack = IOError(errnoCode: EMFILE, reason: "accept")

  private static func instant(_ seconds: Int) -> Instant { Instant(nanoseconds: UInt64(seconds) * 1_000_000_000) }

  @Test("a shortage is one from its first failure until a minute without any")
  func shortages() {
    var shortage = DescriptorShortage()
    #expect(!shortage.isOpen(now: Self.instant(1)))
    #expect(shortage.met(now: Self.instant(10)) == (true, true))
    #expect(shortage.met(now: Self.instant(10)) == (false, false), "others find none either")
    #expect(shortage.isPaused)
    shortage.looked(isWhole: false, now: Self.instant(60))
    #expect(shortage.isPaused)
    shortage.looked(isWhole: true, now: Self.instant(61))
    #expect(!shortage.isPaused)
    #expect(shortage.isOpen(now: Self.instant(119)), "a scrape once a minute sees it")
    #expect(shortage.met(now: Self.instant(119)) == (false, true), "the same one")
    shortage.looked(isWhole: true, now: Self.instant(120))
    #expect(!shortage.isOpen(now: Self.instant(179)))
    #expect(shortage.met(now: Self.instant(180)) == (true, true))
    #expect(shortage.count == 2)
  }

  @Test("what is no lack of descriptors is none", arguments: [ECONNABORTED, ECONNRESET, EBADF, EINTR])
  func others(code: Int32) {
    #expect(!DescriptorShortage.isCause(of: IOError(errnoCode: code, reason: "accept")))
    #expect(!DescriptorShortage.isCause(of: ChannelError.eof))
    for code in [EMFILE, ENFILE, ENOBUFS, ENOMEM] {
      #expect(DescriptorShortage.isCause(of: IOError(errnoCode: code, reason: "accept")))
    }
  }

  /// A listener's channel, and the last value of `autoRead` that was set on it.
  private struct Listener {
    let channel: EmbeddedChannel

    init(_ reserve: DescriptorReserve, _ use: DescriptorReserve.Use, loop: EmbeddedEventLoop) throws {
      channel = EmbeddedChannel(loop: loop)
      // A listener is open before it has a handler.
      try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
      try channel.pipeline.syncOperations.addHandler(reserve.handler(use))
    }

    var reads: Bool? {
      channel.options.last { $0.0 is ChannelOptions.Types.AutoReadOption }.flatMap { $0.1 as? Bool }
    }

    func fail() {
      channel.pipeline.fireErrorCaught(DescriptorReserveTests.lack)
    }
  }

  @Test("all listeners for clients pause for a second, the one for health goes on, and it is reported once")
  func pause() throws {
    let reports = Mutex(0)
    let reserve = DescriptorReserve { _ in reports.withLock { $0 += 1 } }
    let loop = EmbeddedEventLoop()
    let clients = try [Listener(reserve, .clients, loop: loop), Listener(reserve, .clients, loop: loop)]
    let health = try Listener(reserve, .health, loop: loop)
    clients[0].fail()
    loop.run()
    #expect(reserve.isPaused)
    #expect(reserve.isShort)
    #expect(clients.map(\.reads) == [false, false])
    #expect(health.reads == nil)
    // One that begins meanwhile waits as well.
    let late = try Listener(reserve, .clients, loop: loop)
    #expect(late.reads == false)
    health.fail()
    #expect(health.reads == false)
    loop.advanceTime(by: .milliseconds(50))
    #expect(health.reads == true, "it tries again while the others wait")
    #expect(clients.map(\.reads) == [false, false])
    loop.advanceTime(by: .seconds(1))
    #expect(!reserve.isPaused)
    #expect(reserve.isShort)
    #expect((clients + [late]).map(\.reads) == [true, true, true])
    clients[1].fail()
    #expect(reserve.isPaused)
    #expect(reports.withLock { $0 } == 1)
    #expect(reserve.shortageCount == 1)
    loop.advanceTime(by: .seconds(1))
    for listener in clients + [late, health] { _ = try listener.channel.finish() }
  }

  @Test("other errors of a listener go on to those that wait for them")
  func forwarded() throws {
    let reserve = DescriptorReserve { _ in Issue.record("it is no shortage") }
    let listener = try Listener(reserve, .clients, loop: EmbeddedEventLoop())
    listener.channel.pipeline.fireErrorCaught(IOError(errnoCode: EBADF, reason: "accept"))
    #expect(throws: IOError.self) { try listener.channel.throwIfErrorCaught() }
    #expect(!reserve.isPaused)
    _ = try listener.channel.finish(acceptAlreadyClosed: true)
  }

  @Test("with free descriptors there is nothing to say about them")
  func probe() { #expect(DescriptorShortage.probe() == nil) }
}
