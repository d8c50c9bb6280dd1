internal import Glibc
internal import PushStore

/// Jobs that wait for one of some threads, the first to come first.
///
/// Sync: the variables are read and written with `monitor` locked.
@safe final class PostgreSQLLine: @unchecked Sendable {
  private struct Job {
    let deadline: MonotonicTime
    let run: @Sendable (PostgreSQLSession) -> Void
    let refused: @Sendable (StoreError) -> Void
  }

  private let servers: PostgreSQLServers
  private let mutex: UnsafeMutablePointer<pthread_mutex_t>
  private let condition: UnsafeMutablePointer<pthread_cond_t>
  private var jobs: [Job] = []
  /// The first of `jobs` that has not been taken.
  private var next = 0
  private var isClosed = false

  /// More would wait for longer than their callers do.
  private static let jobLimit = 20_000

  init(_ servers: PostgreSQLServers, threadCount: Int) {
    self.servers = servers
    unsafe mutex = .allocate(capacity: 1)
    unsafe condition = .allocate(capacity: 1)
    unsafe pthread_mutex_init(mutex, nil)
    unsafe pthread_cond_init(condition, nil)
    for _ in 0..<threadCount { startThread { [self] in work() } }
  }

  deinit {
    unsafe pthread_cond_destroy(condition)
    unsafe pthread_mutex_destroy(mutex)
    unsafe condition.deallocate()
    unsafe mutex.deallocate()
  }

  /// - Parameters:
  ///   - run: called on one of the threads, unless the deadline has passed by then.
  ///   - refused: called instead.
  func add(
    deadline: MonotonicTime, run: @escaping @Sendable (PostgreSQLSession) -> Void,
    refused: @escaping @Sendable (StoreError) -> Void
  ) {
    unsafe pthread_mutex_lock(mutex)
    let hasRoom = !isClosed && jobs.count - next < Self.jobLimit
    if hasRoom { jobs.append(Job(deadline: deadline, run: run, refused: refused)) }
    unsafe pthread_cond_signal(condition)
    unsafe pthread_mutex_unlock(mutex)
    if !hasRoom { refused(.away(servers.settings.name, "too many requests wait for it")) }
  }

  /// Those that wait are carried out before the threads end.
  func close() {
    unsafe pthread_mutex_lock(mutex)
    isClosed = true
    unsafe pthread_cond_broadcast(condition)
    unsafe pthread_mutex_unlock(mutex)
  }

  /// Nil: the line was closed.
  private func take() -> Job? {
    unsafe pthread_mutex_lock(mutex)
    defer { unsafe pthread_mutex_unlock(mutex) }
    while next == jobs.count {
      guard !isClosed else { return nil }
      unsafe pthread_cond_wait(condition, mutex)
    }
    let job = jobs[next]
    next += 1
    if next == jobs.count || next >= 1024 {
      jobs.removeFirst(next)
      next = 0
    }
    return job
  }

  private func work() {
    let session = PostgreSQLSession(servers)
    while let job = take() {
      guard job.deadline.millisecondsLeft > 0 else {
        job.refused(.away(servers.settings.name, "others waited for it before"))
        continue
      }
      job.run(session)
    }
    session.close()
  }
}

private final class ThreadBody: Sendable {
  let run: @Sendable () -> Void
  init(_ run: @escaping @Sendable () -> Void) { self.run = run }
}

/// Nobody waits for the thread's end.
func startThread(_ run: @escaping @Sendable () -> Void) {
  let body = unsafe Unmanaged.passRetained(ThreadBody(run))
  var thread = pthread_t()
  let code = unsafe pthread_create(
    &thread, nil,
    { argument in
      if let argument = unsafe argument { unsafe Unmanaged<ThreadBody>.fromOpaque(argument).takeRetainedValue().run() }
      return nil
    }, body.toOpaque())
  if code == 0 { pthread_detach(thread) } else { unsafe body.release() }
}

func pauseThread(for duration: Duration) {
  var time = timespec(
    tv_sec: Int(duration.components.seconds), tv_nsec: Int(duration.components.attoseconds / 1_000_000_000))
  unsafe nanosleep(&time, nil)
}
