/// A thread of its own that carries out the same work whenever it is asked to, but not more often
/// than an interval allows. What is asked for during the pause is done together.
///
/// Sync: the variables are read and written with `monitor` locked.
@safe package final class PacedThread: @unchecked Sendable {
  private let monitor = Monitor()
  private let interval: Duration
  private let work: @Sendable () -> Void
  private var isWanted = false
  private var isHurried = false
  private var hasEnded = false

  /// - Parameters:
  ///   - interval: from one beginning of the work to the next.
  ///   - work: may block. Called on the thread only.
  package init(interval: Duration, work: @escaping @Sendable () -> Void) {
    (self.interval, self.work) = (interval, work)
  }

  /// - Returns: 0, or the `errno` of the failure.
  package func start() -> Int32 { DiskThread.start { [self] in run() } }

  /// The work is to be done when the interval allows it, or at once.
  package func ask(atOnce: Bool = false) {
    monitor.locked {
      isWanted = true
      if atOnce { isHurried = true }
    }
    monitor.signal()
  }

  /// Nothing is done any more, except for what has begun.
  package func end() {
    monitor.locked { hasEnded = true }
    monitor.signal()
  }

  private func run() {
    var nextAt = Duration.zero
    monitor.lock()
    while !hasEnded {
      let now = Monitor.now()
      guard isWanted, isHurried || now >= nextAt else {
        monitor.wait(until: isWanted ? nextAt : nil)
        continue
      }
      (isWanted, isHurried) = (false, false)
      nextAt = now + interval
      monitor.unlock()
      work()
      monitor.lock()
    }
    monitor.unlock()
  }
}
