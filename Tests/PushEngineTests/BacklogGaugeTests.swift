internal import PushTransport
internal import PushWire
internal import Testing

@testable internal import PushEngine

@Suite struct BacklogGaugeTests {
  @Test("what other lanes have taken over is not backlog, although the lane has not passed it yet")
  func withdrawn() {
    let ring = NotificationRing(blockCount: 1_024)
    guard let claim = ring.claim(minimum: 1, maximum: 300) else {
      Issue.record("no room in an empty ring")
      return
    }
    claim.publish()
    let gauge = BacklogGauge(batchByteCount: 65_536, largest: 65_536)
    gauge.update(published: 300, done: 0, frameByteCount: nil, now: .start)
    #expect(gauge.backlog(of: ring) == 300)
    gauge.withdrew(100..<200)
    gauge.withdrew(200..<300)
    #expect(gauge.backlog(of: ring) == 100)
    ring.setSent(150)
    gauge.update(published: 300, done: 150, frameByteCount: nil, now: .start)
    #expect(gauge.backlog(of: ring) == 0)
    ring.setSent(300)
    gauge.update(published: 300, done: 300, frameByteCount: nil, now: .start)
    #expect(gauge.backlog(of: ring) == 0)
  }
}
