internal import PushEngine
internal import PushService
internal import PushStore
internal import PushWire
internal import Support

@testable internal import Carillon

/// The clocks of a simulated process.
struct SimulatedClock: ServiceClock {
  let loop: SimulatedLoop
  /// What the time of day was when the loop began, in milliseconds since 1970.
  let beganAt: Int64

  var now: StoreInstant { StoreInstant(milliseconds: milliseconds) }
  var uptime: Instant { loop.now }
  var milliseconds: Int64 { beganAt + Int64(loop.now.nanoseconds / 1_000_000) }

  func sleep(for duration: Duration) async throws {
    await Gate().wait(atMost: duration, on: loop)
    try Task.checkCancellation()
  }

  func run(_ work: @escaping @Sendable () -> Void) { loop.execute(work) }
}
