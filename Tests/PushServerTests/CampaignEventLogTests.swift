internal import PushWire
internal import Testing

@testable internal import PushServer
@testable internal import PushService

@Suite("what followers of a campaign are told")
struct CampaignEventLogTests {
  private static func view(
    _ state: CampaignState, _ progress: Int, reason: String = "", ended: Bool = false
  ) -> CampaignEventLog.View {
    CampaignEventLog.View(state: state, reason: reason, progress: "\(progress)", hasEnded: ended)
  }

  @Test("a snapshot first, progress twice a second at most and none of it lost, then the end")
  func order() {
    var log = CampaignEventLog()
    #expect(log.events(Self.view(.draft, 0), now: .zero) == [.snapshot])
    #expect(log.events(Self.view(.draft, 0), now: .seconds(1)) == [])
    #expect(log.events(Self.view(.running, 5), now: .milliseconds(1100)) == [.progress, .state])
    #expect(log.events(Self.view(.running, 6), now: .milliseconds(1200)) == [])
    // The same numbers, but they have not been told.
    #expect(log.events(Self.view(.running, 6), now: .milliseconds(1700)) == [.progress])
    #expect(log.events(Self.view(.held, 6, reason: "quiet"), now: .seconds(2)) == [.state, .alarm])
    #expect(log.events(Self.view(.held, 6, reason: "stopped"), now: .seconds(3)) == [.state, .alarm])
    #expect(log.events(Self.view(.running, 7), now: .milliseconds(3001)) == [.progress, .state])
    #expect(log.events(Self.view(.finished, 9, ended: true), now: .milliseconds(3002)) == [.progress, .state, .end])
    #expect(log.hasEnded)
    #expect(log.events(Self.view(.finished, 10, ended: true), now: .seconds(9)) == [])
  }

  @Test("a stream without events says every 15 s that it is alive")
  func silence() {
    var silence = EventStream.Silence(beganAt: .start)
    let soon = Instant.start + .milliseconds(14_999)
    #expect(silence.output("", now: soon) == nil)
    #expect(silence.output("event: state\n\n", now: soon) == "event: state\n\n")
    silence.beganAt = soon
    #expect(silence.output("", now: soon + .milliseconds(14_999)) == nil)
    #expect(silence.output("", now: soon + .seconds(15)) == ":\n\n")
  }

  @Test("whoever comes after the end is told it at once")
  func late() {
    var log = CampaignEventLog()
    #expect(log.events(Self.view(.failed, 9, reason: "x", ended: true), now: .zero) == [.snapshot, .alarm, .end])
  }
}
