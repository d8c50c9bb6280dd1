internal import Foundation
internal import Support
internal import Synchronization
internal import Testing

/// The end of a run of the built `carillon`.
struct Ending: CustomStringConvertible {
  let status: Int32
  let output: String
  let errors: String
  var description: String { "exit status \(status)\nstandard output: \(output)\nstandard error: \(errors)" }
}

/// The built executable as a child process. Standard input and error are files; a thread reads
/// standard output from a pipe.
///
/// Foundation's Process is not used: when many tests start it at once, it sometimes misses the end
/// of a child.
final class ChildProcess: Sendable {
  private struct State {
    var lines: [String] = []
    var partial: [UInt8] = []
    var ending: Ending?
    var waiters: [CheckedContinuation<Void, Never>] = []
  }

  private let state = Mutex(State())
  let identifier: pid_t
  private let files: Workplace

  /// `carillon` is in the folder of the test bundle, whatever the build folder's name.
  static let executable = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath().deletingLastPathComponent()
    .appending(path: "carillon")

  /// - Parameters:
  ///   - redirection: For the shell that starts it, such as `>/dev/full`.
  ///   - preparation: What the shell does first, such as `ulimit -f 40 && exec`. It ends with the
  ///     word that starts the command.
  init(
    _ arguments: [String], input: String = "", directory: URL? = nil, redirection: String = "",
    preparation: String = "exec"
  ) throws {
    files = try Workplace()
    try files.write(input, to: "input")
    let (started, output) = try Self.start(
      arguments, files: files, directory: directory, redirection: redirection, preparation: preparation)
    identifier = started
    Thread.detachNewThread { [self] in
      var block = [UInt8](repeating: 0, count: 65_536)
      while true {
        let count = unsafe read(output, &block, block.count)
        if count < 0, errno == EINTR { continue }
        guard count > 0 else { break }
        received(block[..<count])
      }
      close(output)
      var status: Int32 = 0
      while unsafe waitpid(started, &status, 0) < 0, errno == EINTR {}
      // As in a shell: a signal gives 128 plus its number.
      ended(status: status & 0x7F == 0 ? (status >> 8) & 0xFF : 128 + (status & 0x7F), errors: errors)
    }
  }

  /// Children are started one at a time, and the read end of each pipe is closed in all others. A
  /// child with the end of another child's pipe would keep its reader waiting until it ends.
  private static let spawning = Mutex(())

  private static func start(
    _ arguments: [String], files: Workplace, directory: URL?, redirection: String, preparation: String
  ) throws -> (pid_t, output: Int32) {
    try spawning.withLock { _ in
      keepDescriptors()
      var ends: [Int32] = [0, 0]
      try #require(unsafe pipe(&ends) == 0)
      for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
      defer { close(ends[1]) }
      var actions = unsafe posix_spawn_file_actions_t()
      unsafe posix_spawn_file_actions_init(&actions)
      defer { unsafe posix_spawn_file_actions_destroy(&actions) }
      unsafe posix_spawn_file_actions_addopen(&actions, 0, files.path("input"), O_RDONLY, 0)
      unsafe posix_spawn_file_actions_adddup2(&actions, ends[1], 1)
      unsafe posix_spawn_file_actions_addopen(&actions, 2, files.path("errors"), O_WRONLY | O_CREAT | O_APPEND, 0o600)
      // Default signal handling, as from a terminal. The test runner's threads block signals, and
      // children would inherit that.
      var attributes = posix_spawnattr_t()
      unsafe posix_spawnattr_init(&attributes)
      defer { unsafe posix_spawnattr_destroy(&attributes) }
      var ordinary = sigset_t()
      unsafe sigemptyset(&ordinary)
      for signal in [SIGXFSZ, SIGPIPE, SIGINT, SIGTERM, SIGHUP] { unsafe sigaddset(&ordinary, signal) }
      unsafe posix_spawnattr_setsigdefault(&attributes, &ordinary)
      var none = sigset_t()
      unsafe sigemptyset(&none)
      unsafe posix_spawnattr_setsigmask(&attributes, &none)
      unsafe posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK))
      // A shell changes the folder and then executes the command.
      let path = "/bin/sh"
      let place = directory ?? FileManager.default.temporaryDirectory
      let shell = [
        path, "-c", "cd \"$0\" && \(preparation) \"$@\" \(redirection)", place.path(percentEncoded: false),
        executable.path(percentEncoded: false),
      ]
      var words = unsafe (shell + arguments).map { unsafe strdup($0) } + [nil]
      defer { unsafe words.forEach { unsafe free($0) } }
      var child: pid_t = 0
      let problem = unsafe posix_spawn(&child, path, &actions, &attributes, &words, environ)
      try #require(problem == 0, "\(path) cannot be started: \(unsafe String(cString: strerror(problem)))")
      return (child, ends[0])
    }
  }

  /// NIO's listening sockets are inherited by children. They would keep them open after a gateway
  /// in this process has closed them.
  private static func keepDescriptors() {
    for name in (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? [] {
      guard let descriptor = Int32(name), descriptor > 2 else { continue }
      _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
    }
  }

  /// Runs the command to its end.
  static func run(
    _ arguments: [String], input: String = "", directory: URL? = nil, redirection: String = "",
    preparation: String = "exec"
  ) async throws -> Ending {
    await
      (try ChildProcess(
        arguments, input: input, directory: directory, redirection: redirection, preparation: preparation)).ending()
  }

  /// No effect once the child has ended.
  func send(_ signal: Int32) {
    state.withLock { if $0.ending == nil { _ = kill(identifier, signal) } }
  }

  var hasEnded: Bool { state.withLock { $0.ending != nil } }

  func ending() async -> Ending {
    while true {
      if let ending = state.withLock({ $0.ending }) { return ending }
      await somethingHappened { $0.ending != nil }
    }
  }

  /// The standard error so far.
  var errors: String { (try? files.read("errors")) ?? "" }

  /// The line of standard output with this index; nil if the output ends before.
  func line(_ index: Int) async -> String? {
    while true {
      let (lines, hasEnded) = state.withLock { ($0.lines, $0.ending != nil) }
      if lines.indices.contains(index) { return lines[index] }
      if hasEnded { return nil }
      await somethingHappened { $0.lines.count > index || $0.ending != nil }
    }
  }

  private func received(_ bytes: ArraySlice<UInt8>) {
    change { state in
      state.partial += bytes
      while let end = state.partial.firstIndex(of: UInt8(ascii: "\n")) {
        state.lines.append(String(decoding: state.partial[..<end], as: UTF8.self))
        state.partial.removeSubrange(...end)
      }
    }
  }

  private func ended(status: Int32, errors: String) {
    change { state in
      let output = state.lines.map { $0 + "\n" }.joined() + String(decoding: state.partial, as: UTF8.self)
      state.ending = Ending(status: status, output: output, errors: errors)
    }
  }

  private func change(_ body: (inout State) -> Void) {
    let waiters = state.withLock { state in
      body(&state)
      defer { state.waiters = [] }
      return state.waiters
    }
    for waiter in waiters { waiter.resume() }
  }

  /// Returns at once if `isThere` already holds, otherwise after the next change.
  private func somethingHappened(_ isThere: (borrowing State) -> Bool) async {
    await withCheckedContinuation { continuation in
      let goesOn = state.withLock { state in
        if isThere(state) { return true }
        state.waiters.append(continuation)
        return false
      }
      if goesOn { continuation.resume() }
    }
  }
}
