internal import Glibc

/// Threads that wait and then run one function at the same time, on each call of ``run()``.
@safe final class Team {
  private let members: [Member]
  private var threads: [pthread_t] = []

  init(count: Int, _ body: @escaping @Sendable () -> Void) {
    members = (0..<count).map { _ in Member(body) }
    for member in members {
      var thread = pthread_t()
      let context = unsafe Unmanaged.passRetained(member).toOpaque()
      let code = unsafe pthread_create(
        &thread, nil,
        { context in
          guard let context = unsafe context else { return nil }
          unsafe Unmanaged<Member>.fromOpaque(context).takeRetainedValue().work()
          return nil
        }, context)
      precondition(code == 0, "no thread can be started")
      threads.append(thread)
    }
  }

  deinit {
    for member in members { member.end() }
    for thread in threads { pthread_join(thread, nil) }
  }

  /// Returns when all threads have finished.
  func run() {
    for member in members { member.begin() }
    for member in members { member.wait() }
  }

  // Sync: the semaphores order all accesses. `isEnding` is written before `start` is signalled, and
  // read after the wait.
  @safe private final class Member: @unchecked Sendable {
    private let body: @Sendable () -> Void
    private let start = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)
    private let done = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)
    private var isEnding = false

    init(_ body: @escaping @Sendable () -> Void) {
      self.body = body
      unsafe sem_init(start, 0, 0)
      unsafe sem_init(done, 0, 0)
    }

    deinit {
      unsafe start.deallocate()
      unsafe done.deallocate()
    }

    func work() {
      while true {
        unsafe Self.lower(start)
        if isEnding { return }
        body()
        unsafe sem_post(done)
      }
    }

    func begin() { unsafe sem_post(start) }
    func wait() { unsafe Self.lower(done) }

    func end() {
      isEnding = true
      begin()
    }

    private static func lower(_ semaphore: UnsafeMutablePointer<sem_t>) {
      while unsafe sem_wait(semaphore) != 0 {}
    }
  }
}
