package import Foundation
internal import Synchronization

/// The end of a run of a program.
package struct Ending: CustomStringConvertible, Sendable {
  package let status: Int32
  package let output: String
  package let errors: String

  package init(status: Int32, output: String, errors: String) {
    self.status = status
    self.output = output
    self.errors = errors
  }

  package var description: String { "exit status \(status)\nstandard output: \(output)\nstandard error: \(errors)" }
}

/// A program as a child process, by default the built `carillon`. Standard input and error are
/// files; a thread reads standard output from a pipe.
///
/// The child is killed when this object goes, whether or not its test got to its end, and when a
/// task that waits for the child is cancelled.
///
/// Foundation's Process is not used: when many tests start it at once, it sometimes misses the end
/// of a child.
package final class ChildProcess: Sendable {
  private let child: RunningChild
  package var identifier: pid_t { child.identifier }

  /// `carillon` is in the folder of the test bundle, whatever the build folder's name.
  package static let executable = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath()
    .deletingLastPathComponent().appending(path: "carillon")

  /// - Parameters:
  ///   - program: its path, or a name that the shell finds. Nil: `carillon`.
  ///   - redirection: For the shell that starts it, such as `>/dev/full`.
  ///   - preparation: What the shell does first, such as `ulimit -f 40 && exec`. It ends with the
  ///     word that starts the command.
  package init(
    _ arguments: [String], program: String? = nil, input: String = "", directory: URL? = nil,
    redirection: String = "", preparation: String = "exec"
  ) throws {
    let files = try Workplace()
    try files.write(input, to: "input")
    let command = [program ?? Self.executable.path(percentEncoded: false)] + arguments
    let (started, output) = try Self.start(
      command, files: files, directory: directory, redirection: redirection, preparation: preparation)
    child = RunningChild(started, files: files)
    child.follow(output)
  }

  deinit { child.send(SIGKILL) }

  /// Children are started one at a time, and the read end of each pipe is closed in all others. A
  /// child with the end of another child's pipe would keep its reader waiting until it ends.
  private static let spawning = Mutex(())

  private static func start(
    _ command: [String], files: Workplace, directory: URL?, redirection: String, preparation: String
  ) throws -> (pid_t, output: Int32) {
    try spawning.withLock { _ in
      keepDescriptors()
      var ends: [Int32] = [0, 0]
      guard unsafe pipe(&ends) == 0 else { throw NotStarted(description: "no pipe: errno \(errno)") }
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
      ]
      var words = unsafe (shell + command).map { unsafe strdup($0) } + [nil]
      defer { unsafe words.forEach { unsafe free($0) } }
      var child: pid_t = 0
      let problem = unsafe posix_spawn(&child, path, &actions, &attributes, &words, environ)
      guard problem == 0 else { throw NotStarted(description: "\(path): \(unsafe String(cString: strerror(problem)))") }
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

  private struct NotStarted: Error, CustomStringConvertible {
    let description: String
  }

  /// Runs the program to its end.
  package static func run(
    _ arguments: [String], program: String? = nil, input: String = "", directory: URL? = nil,
    redirection: String = "", preparation: String = "exec"
  ) async throws -> Ending {
    let process = try ChildProcess(
      arguments, program: program, input: input, directory: directory, redirection: redirection,
      preparation: preparation)
    return await process.ending()
  }

  /// Runs a program to its end on the caller's thread: for what takes moments.
  package static func runNow(_ arguments: [String], program: String) throws -> Ending {
    let files = try Workplace()
    try files.write("", to: "input")
    let (child, output) = try start(
      [program] + arguments, files: files, directory: nil, redirection: "", preparation: "exec")
    let handle = FileHandle(fileDescriptor: output, closeOnDealloc: true)
    let text = String(decoding: handle.readDataToEndOfFile(), as: UTF8.self)
    var status: Int32 = 0
    while unsafe waitpid(child, &status, 0) < 0, errno == EINTR {}
    return Ending(
      status: status & 0x7F == 0 ? (status >> 8) & 0xFF : 128 + (status & 0x7F), output: text,
      errors: (try? files.read("errors")) ?? "")
  }

  /// Starts a program that nobody waits for. It is no child of the tests: once ended, it would stay
  /// as one that nobody has asked for, and the tests of traps would ask for nothing else.
  package static func leave(_ arguments: [String], program: String) throws {
    let script = #""$@" >/dev/null 2>&1 </dev/null &"#
    _ = try runNow(["-c", script, "sh", program] + arguments, program: "/bin/sh")
  }

  /// No effect once the child has ended.
  package func send(_ signal: Int32) { child.send(signal) }

  package var hasEnded: Bool { child.hasEnded }

  package func ending() async -> Ending { await bounded { await child.ending() } }

  /// What takes longer than 10 minutes hangs: the child is given up then, so that its test fails
  /// and all others go on.
  private func bounded<Result>(_ wait: () async -> Result) async -> Result {
    let limit = Task { [child] in
      try await Task.sleep(for: .seconds(600))
      child.giveUp()
    }
    defer { limit.cancel() }
    return await withTaskCancellationHandler {
      await wait()
    } onCancel: {
      child.send(SIGKILL)
    }
  }

  /// The standard error so far.
  package var errors: String { child.errors }

  /// The line of standard output with this index; nil if the output ends before.
  package func line(_ index: Int) async -> String? { await bounded { await child.line(index) } }
}

/// What the thread that follows a child keeps, until the child has ended.
private final class RunningChild: Sendable {
  private struct State {
    var lines: [String] = []
    var partial: [UInt8] = []
    var ending: Ending?
  }

  private let state = Watched(State())
  private let files: Workplace
  let identifier: pid_t

  init(_ identifier: pid_t, files: Workplace) {
    self.identifier = identifier
    self.files = files
  }

  /// Reads the output to its end, and waits for the end of the child.
  func follow(_ output: Int32) {
    Thread.detachNewThread { [self] in
      var block = [UInt8](repeating: 0, count: 65_536)
      while true {
        let count = unsafe read(output, &block, block.count)
        if count < 0, errno == EINTR { continue }
        guard count > 0 else { break }
        received(block[..<count])
      }
      close(output)
      // It stays a zombie, whose number nobody else gets, until `ended` is known.
      var ending = unsafe siginfo_t()
      while unsafe waitid(P_PID, id_t(identifier), &ending, WEXITED | WNOWAIT) < 0, errno == EINTR {}
      ended()
    }
  }

  /// No effect once the child has ended.
  func send(_ signal: Int32) {
    state.read { if $0.ending == nil { _ = kill(identifier, signal) } }
  }

  /// Kills it, and does not wait for its end: another program may hold its output open.
  func giveUp() {
    send(SIGKILL)
    let errors = errors
    state.change { state in
      guard state.ending == nil else { return }
      state.ending = Ending(
        status: 124, output: state.lines.map { $0 + "\n" }.joined(), errors: errors + "\ngiven up after 10 minutes")
    }
  }

  var hasEnded: Bool { state.read { $0.ending != nil } }

  func ending() async -> Ending {
    while true {
      if let ending = state.read({ $0.ending }) { return ending }
      await state.wait { $0.ending != nil }
    }
  }

  /// The standard error so far.
  var errors: String { (try? files.read("errors")) ?? "" }

  /// The line of standard output with this index; nil if the output ends before.
  func line(_ index: Int) async -> String? {
    await state.wait { $0.lines.count > index || $0.ending != nil }
    return state.read { $0.lines.indices.contains(index) ? $0.lines[index] : nil }
  }

  private func received(_ bytes: ArraySlice<UInt8>) {
    state.change { state in
      state.partial += bytes
      while let end = state.partial.firstIndex(of: UInt8(ascii: "\n")) {
        state.lines.append(String(decoding: state.partial[..<end], as: UTF8.self))
        state.partial.removeSubrange(...end)
      }
    }
  }

  private func ended() {
    let errors = errors
    state.change { state in
      var status: Int32 = 0
      while unsafe waitpid(identifier, &status, 0) < 0, errno == EINTR {}
      let output = state.lines.map { $0 + "\n" }.joined() + String(decoding: state.partial, as: UTF8.self)
      guard state.ending == nil else { return }
      // As in a shell: a signal gives 128 plus its number.
      state.ending = Ending(
        status: status & 0x7F == 0 ? (status >> 8) & 0xFF : 128 + (status & 0x7F), output: output, errors: errors)
    }
  }
}
