internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization

@testable internal import Carillon
@testable internal import PushEngine

/// A real ``Deployment`` of one app, which runs on the loop of a simulated process.
final class SimulatedDeployment: Sendable {
  let deployment: Deployment
  let runtime: AppRuntime
  private let engine: RunningEngine
  private let ended = Atomic<Bool>(false)

  /// - Parameters:
  ///   - configuration: of the app whose engine `process` runs.
  ///   - wallClock: milliseconds since 1970; nil: those of the loop.
  init(
    _ process: SimulatedProcess, _ configuration: AppConfiguration, _ recorder: any IntakeRecorder,
    wallClock: (@Sendable () -> Int64)? = nil
  ) throws {
    let loop = process.loop
    let random = Mutex(SeededGenerator(seed: process.seed &+ 11))
    engine = RunningEngine(
      loops: [loop], journal: process.journal,
      wallClockMilliseconds: wallClock ?? { Int64(loop.unixSeconds) * 1000 },
      random: { random.withLock { $0.next() } }, shutDownLoops: {})
    let entry = AppEntry(configuration, try Self.credential.get())
    deployment = Deployment(core: DeploymentCore([entry], on: engine, unfinished: process.report.unfinished))
    runtime = AppRuntime(
      entry, process.app, dialer: DialerSwitch(process.dialer), engine: engine, recorder: recorder,
      lease: deployment.core.lease)
    entry.runtime = runtime
    deployment.core.intakeRecorder = recorder
    _ = Task(executorPreference: loop) { [self] in
      await withDiscardingTaskGroup { tasks in
        while let jobs = await engine.jobs.take() { for job in jobs { tasks.addTask { await job() } } }
      }
      ended.store(true, ordering: .relaxed)
    }
  }

  /// One for all: it is never presented.
  private static let credential = Result {
    ResolvedCredential(
      context: try TLSContext(client: TLSClientConfiguration(credential: nil, trust: .system)), certificate: nil,
      tokens: nil, digest: [])
  }

  /// Nothing of it runs any more.
  var hasEnded: Bool { ended.load(ordering: .relaxed) }

  /// Takes no more work, and ends with what runs.
  func close() { engine.jobs.close() }
}
