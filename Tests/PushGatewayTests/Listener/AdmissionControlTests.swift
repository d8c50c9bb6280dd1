internal import PushWire
internal import Testing

@testable internal import PushGateway

struct AdmissionControlTests {
  private func at(_ milliseconds: Int64) -> Instant { .start + .milliseconds(milliseconds) }

  @Test("after ten failures, an address is admitted at intervals that double up to two seconds")
  func slowDown() {
    var control = AdmissionControl()
    var waits: [Duration?] = []
    for _ in 0..<20 {
      waits.append(control.admit("a", now: at(1000)))
      control.failed("a", now: at(1000))
    }
    let expected: [Duration?] =
      Array(repeating: .zero, count: 11) + [.milliseconds(50), .milliseconds(100), .milliseconds(200)]
    #expect(Array(waits.prefix(14)) == expected)
    #expect(waits.compactMap { $0 }.max() ?? .zero <= AdmissionControl.longestWait)
    #expect(control.admit("b", now: at(1000)) == .zero)
  }

  @Test("a connection that would wait too long is closed, and does not lengthen the wait")
  func refusedStreams() {
    var control = AdmissionControl()
    for _ in 0..<20 { control.failed("a", now: at(0)) }
    var admitted = 0
    for _ in 0..<1000 where control.admit("a", now: at(0)) != nil { admitted += 1 }
    #expect((1...6).contains(admitted))
    #expect(control.admit("a", now: at(2000)) != nil)
  }

  @Test("a success, or a minute without a failure, resets an address")
  func forgiveness() {
    var control = AdmissionControl()
    for _ in 0..<20 { control.failed("a", now: at(0)) }
    #expect(control.admit("a", now: at(59_000)) != nil)
    #expect(control.admit("a", now: at(60_000)) == .zero)
    for _ in 0..<20 { control.failed("a", now: at(70_000)) }
    control.succeeded("a")
    #expect(control.admit("a", now: at(70_000)) == .zero)
  }

  @Test("memory is bounded: the address with the oldest failure is dropped first")
  func bounded() {
    var control = AdmissionControl()
    for number in 0..<5000 { for _ in 0..<12 { control.failed("\(number)", now: at(Int64(number))) } }
    #expect(control.admit("0", now: at(5000)) == .zero)
    #expect(control.admit("4999", now: at(5000)) ?? .zero > .zero)
    #expect(control.addressCount == AdmissionControl.addressLimit)
  }
}
