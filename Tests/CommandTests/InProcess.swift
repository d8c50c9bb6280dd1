internal import Foundation
internal import Support
internal import Testing

/// Runs the service and the simulator of a test in the test's own process.
///
/// With this trait, ``ServeSite/start(preparation:)`` and ``HTTP2Site/simulate(rules:port:)`` start
/// no child processes. The service is the whole one, with its configuration, store, journal and
/// campaigns, and talks TLS to the simulator. Only its listeners are missing: an ``Endpoint`` calls
/// what stands behind them. What a test leaves running is cancelled at its end.
///
/// It suits whatever a client of the API sees. Connections, signals, kill -9, descriptors, memory
/// and output need a process.
struct InProcess: TestTrait, SuiteTrait, TestScoping {
  var isRecursive: Bool { true }

  /// Those of the present test; nil: it starts child processes.
  @TaskLocal static var programs: LocalPrograms?

  func provideScope(
    for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
  ) async throws {
    let programs = LocalPrograms()
    try await withThrowingTaskGroup(of: Void.self) { tasks in
      tasks.addTask { await programs.run() }
      defer { programs.end() }
      try await Self.$programs.withValue(programs) { try await function() }
    }
  }
}

extension Trait where Self == InProcess {
  /// See ``InProcess``.
  static var inProcess: Self { InProcess() }
}

/// The programs that a test runs in its own process.
final class LocalPrograms: Sendable {
  private let bodies: AsyncStream<@Sendable () async -> Void>
  private let source: AsyncStream<@Sendable () async -> Void>.Continuation

  init() { (bodies, source) = AsyncStream.makeStream() }

  /// Runs programs until ``end()``, and cancels those that run then.
  func run() async {
    await withDiscardingTaskGroup { tasks in
      for await body in bodies { tasks.addTask { await body() } }
      tasks.cancelAll()
    }
  }

  func end() { source.finish() }

  /// - Parameter body: of the program. Returns its exit status.
  func start(_ program: LocalProgram, _ body: @escaping @Sendable () async -> Int32) {
    source.yield { program.end(await body()) }
  }
}

/// A part of `carillon` that runs in the test's own process. A test sees the same of it as of a
/// child process.
final class LocalProgram: TestProgram {
  private struct State {
    var lines: [String] = []
    var errors = ""
    var status: Int32?
  }

  private let state = Watched(State())
  /// What the test sends.
  let signals: AsyncStream<Int32>
  private let source: AsyncStream<Int32>.Continuation

  init() { (signals, source) = AsyncStream.makeStream() }

  var identifier: pid_t { getpid() }
  var hasEnded: Bool { state.read { $0.status != nil } }
  var errors: String { state.read { $0.errors } }

  func send(_ signal: Int32) { source.yield(signal) }

  func ending() async -> Ending {
    await state.wait { $0.status != nil }
    return state.read { state in
      Ending(
        status: state.status ?? 0, output: state.lines.map { $0 + "\n" }.joined(), errors: state.errors)
    }
  }

  func line(_ index: Int) async -> String? {
    await state.wait { $0.lines.count > index || $0.status != nil }
    return state.read { $0.lines.indices.contains(index) ? $0.lines[index] : nil }
  }

  func writeLine(_ line: String) { state.change { $0.lines.append(line) } }
  func writeError(_ line: String) { state.change { $0.errors += line + "\n" } }
  fileprivate func end(_ status: Int32) { state.change { $0.status = status } }
}
