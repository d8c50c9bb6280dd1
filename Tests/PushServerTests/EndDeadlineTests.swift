internal import Support
internal import Synchronization
internal import Testing

@testable internal import PushServer

@Suite("the time that the end of the service may take")
struct EndDeadlineTests {
  private final class Heard: Sendable {
    private let sentences = Mutex<[String]>([])
    var all: [String] { sentences.withLock { $0 } }
    func add(_ sentence: String) { sentences.withLock { $0.append(sentence) } }
  }

  private static func shutdown(_ announce: Duration) -> ServerConfiguration.Shutdown {
    var shutdown = ServerConfiguration.Shutdown()
    (shutdown.announce, shutdown.drain) = (announce, .milliseconds(10))
    return shutdown
  }

  @Test("it is told once when the time is over, and not at all if the service has ended or goes on")
  func deadline() async throws {
    let (late, ended, idle) = (Heard(), Heard(), Heard())
    let deadlines = [
      EndDeadline(Self.shutdown(.milliseconds(300)), slack: .zero) { late.add($0) },
      EndDeadline(Self.shutdown(.milliseconds(100)), slack: .zero) { ended.add($0) },
      EndDeadline(Self.shutdown(.zero), slack: .zero) { idle.add($0) },
    ]
    for deadline in deadlines.prefix(2) {
      deadline.begin()
      deadline.begin()
    }
    deadlines[1].cancel()
    try await waitUntil("it is told") { !late.all.isEmpty }
    #expect(late.all.count == 1)
    #expect(late.all[0].hasSuffix("."))
    #expect(ended.all.isEmpty)
    #expect(idle.all.isEmpty)
  }
}
