internal import PushTransport
internal import PushWire

/// How a lane sleeps: until its ring has something, until a timer fires; and what it does about its memory meanwhile.
struct LaneIdle {
  private let ring: NotificationRing
  private let loop: any Loop
  private let scheduler: LaneScheduler
  private var timer: (deadline: Instant, handle: any LoopTimer)?
  private var emptySince: Instant?

  /// A ring that has been empty for so long gives its memory back.
  private static let ringIdleness = Duration.seconds(1)

  init(ring: NotificationRing, loop: any Loop, scheduler: LaneScheduler) {
    self.ring = ring
    self.loop = loop
    self.scheduler = scheduler
  }

  /// Sleeps until `deadline`, or until somebody wakes the lane.
  ///
  /// - Parameter published: of the ring, when the lane last asked its machine.
  /// - Returns: false when more was published meanwhile: then the lane must look again.
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
      // Whoever came meanwhile has found no room.
      scheduler.resumeWaiters()
    }
  }

  /// A timer that is due earlier than needed stays: it only asks the machine once more.
  private mutating func arm(_ deadline: Instant, for lane: Lane) {
    if let timer, timer.deadline <= deadline { return }
    timer?.handle.cancel()
    let handle = loop.schedule(at: deadline) { Self.fire(lane) }
    timer = (deadline, handle)
  }

  private static func fire(_ lane: Lane) {
    lane.assumeIsolated { $0.timerFired() }
  }

  /// The timer has fired.
  mutating func woke() {
    timer = nil
  }
}
