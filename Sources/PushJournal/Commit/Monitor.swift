internal import Glibc

/// A lock with one condition. The standard library's `Mutex` has none, and the journal's thread
/// must wait for changes of what the lock guards.
///
/// Sync: the C library's own objects, at an address that does not change.
@safe final class Monitor: @unchecked Sendable {
  private let mutex: UnsafeMutablePointer<pthread_mutex_t>
  private let condition: UnsafeMutablePointer<pthread_cond_t>

  init() {
    unsafe mutex = .allocate(capacity: 1)
    unsafe condition = .allocate(capacity: 1)
    unsafe pthread_mutex_init(mutex, nil)
    var attributes = pthread_condattr_t()
    unsafe pthread_condattr_init(&attributes)
    unsafe pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
    unsafe pthread_cond_init(condition, &attributes)
    unsafe pthread_condattr_destroy(&attributes)
  }

  deinit {
    unsafe pthread_cond_destroy(condition)
    unsafe pthread_mutex_destroy(mutex)
    unsafe condition.deallocate()
    unsafe mutex.deallocate()
  }

  func lock() { unsafe pthread_mutex_lock(mutex) }
  func unlock() { unsafe pthread_mutex_unlock(mutex) }

  /// Releases the lock and waits until ``signal()`` or until `deadline` on the monotonic clock,
  /// then takes the lock again. It may also return early.
  func wait(until deadline: Duration?) {
    guard let deadline else {
      unsafe pthread_cond_wait(condition, mutex)
      return
    }
    let (seconds, attoseconds) = deadline.components
    var time = timespec(tv_sec: Int(seconds), tv_nsec: Int(attoseconds / 1_000_000_000))
    unsafe pthread_cond_timedwait(condition, mutex, &time)
  }

  func signal() { unsafe pthread_cond_signal(condition) }

  /// The time of the monotonic clock, which `wait(until:)` uses.
  static func now() -> Duration {
    var time = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &time)
    return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
  }
}

/// A thread for work that blocks.
enum DiskThread {
  private final class Body: Sendable {
    let run: @Sendable () -> Void
    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
  }

  /// Starts `run` on a new thread. Returns 0, or the `errno` of the failure.
  static func start(_ run: @escaping @Sendable () -> Void) -> Int32 {
    let body = unsafe Unmanaged.passRetained(Body(run))
    var thread = pthread_t()
    let code = unsafe pthread_create(
      &thread, nil,
      { argument in
        if let argument = unsafe argument { unsafe Unmanaged<Body>.fromOpaque(argument).takeRetainedValue().run() }
        return nil
      }, body.toOpaque())
    guard code == 0 else {
      unsafe body.release()
      return code
    }
    pthread_detach(thread)
    return 0
  }
}
