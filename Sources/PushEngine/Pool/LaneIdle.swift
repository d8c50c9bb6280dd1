internal import PushTransport
internal import PushWire

/// How a lane sleeps: until its ring has something or a timer fires. Also frees the memory of an
/// idle ring.
struct LaneIdle {
  private let ring: NotificationRing
  private let loop: any Loop
  private let scheduler: LaneScheduler
  private var timer: (deadline: Instant, handle: any LoopTimer)?
  private var emptySince: Instant?

  /// A ring that has been empty for this long frees its memory.
  private static let ringIdleness = Duration.seconds(1)

  init(ring: NotificationRing, loop: any Loop, scheduler: LaneScheduler) {
    (self.ring, self.loop, self.scheduler) = (ring, loop, scheduler)
  }

  /// Sleeps until `deadline`, or until the lane is woken.
  ///
  /// - Parameter published: the ring's published position when the lane last asked its machine.
  /// - Returns: false if more was published since: then the lane must look again.
  mutating func sleep(_ lane: Lane, until deadline: Instant?, seen published: UInt64) -> Bool {
    if let deadline { arm(deadline, for: lane) }
    lookAfterMemory(seen: published, for: lane)
    return ring.sleep(seen: published)
  }

  private mutating func lookAfterMemory(seen published: UInt64, for lane: Lane) {
    guard published == ring.settled else {
      emptySince = nil
      return
    }
    guard ring.isBusy else { return }
    let now = loop.now
    let since = emptySince ?? now
    emptySince = since
    if now < since + Self.ringIdleness {
      arm(since + Self.ringIdleness, for: lane)
    } else if ring.becameIdle() {
      // Readers that came meanwhile found no room.
      scheduler.resumeWaiters()
    }
  }

  /// A timer that fires earlier than needed stays: it only costs one more question to the machine.
  private mutating func arm(_ deadline: Instant, for lane: Lane) {
    if let timer, timer.deadline <= deadline { return }
    timer?.handle.cancel()
    let handle = loop.schedule(at: deadline) { lane.assumeIsolated { $0.timerFired() } }
    timer = (deadline, handle)
  }

  /// The timer has fired.
  mutating func woke() { timer = nil }
}
