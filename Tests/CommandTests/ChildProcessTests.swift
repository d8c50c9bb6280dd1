internal import Foundation
internal import Support
internal import Synchronization
internal import Testing

/// Processes that tests start end with them.
@Suite("Child processes of tests", .timeLimit(.minutes(10)))
struct ChildProcessTests {
  private struct Failure: Error {}

  private static func hasEnded(_ identifier: pid_t) async throws {
    // Also as a zombie it would still be there.
    try await waitUntil("process \(identifier) is gone") { kill(identifier, 0) != 0 }
  }

  @Test("a test that throws leaves no child")
  func thrown() async throws {
    let started = Mutex<pid_t>(0)
    await #expect(throws: Failure.self) {
      let child = try ChildProcess(["-c", "echo begun; exec sleep 600"], program: "sh")
      started.withLock { $0 = child.identifier }
      #expect(await child.line(0) == "begun")
      throw Failure()
    }
    try await Self.hasEnded(started.withLock { $0 })
  }

  @Test("a task that is cancelled while it waits for a child ends it")
  func cancelled() async throws {
    let child = try ChildProcess(["600"], program: "sleep")
    let ending = await withTaskGroup(of: Ending.self, returning: Ending?.self) { tasks in
      tasks.addTask { await child.ending() }
      tasks.cancelAll()
      return await tasks.next()
    }
    #expect(ending?.status == 128 + SIGKILL)
    try await Self.hasEnded(child.identifier)
  }
}
