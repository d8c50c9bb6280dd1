package import PushEngine
package import PushTransport
internal import Synchronization

/// Everything that an app needs to run: its rules, and how to reach its gateway with its
/// credential.
package struct AppPlan: Sendable {
  package var configuration: AppRules
  package var dialer: any Dialer

  package init(configuration: AppRules, dialer: any Dialer) {
    (self.configuration, self.dialer) = (configuration, dialer)
  }
}

/// What the apps of one process share while they run: the event loops, the memory of their rings
/// and the journal.
package final class RunningEngine: Sendable {
  let journal: EngineJournal?
  /// Work for the deployment's own task group.
  let jobs = Mailbox<@Sendable () async -> Void>()
  /// For what apps take in: most of them have nothing to read at a time.
  let intakeChunks = ChunkPool(payloadCapacity: 256 << 10)
  /// The event loops, over which the apps' lanes are spread.
  let loops: [any Loop]
  /// In milliseconds since 1970.
  let wallClockMilliseconds: @Sendable () -> Int64
  /// Of identifiers.
  let random: @Sendable () -> UInt64
  private let shutDownLoops: @Sendable () async -> Void
  private let budget = RingBudget()
  private let appCount = Atomic<Int>(0)

  /// - Parameters:
  ///   - threads: event loops; one per core is right.
  ///   - journal: shared by all apps; the caller closes it, after ``shutDown()``.
  package convenience init(threads: Int, journal: EngineJournal?) {
    self.init(LoopGroup(threads: threads), journal: journal)
  }

  convenience init(_ group: LoopGroup, journal: EngineJournal?) {
    self.init(
      loops: group.loops, journal: journal, wallClockMilliseconds: { NIOLoop.wallClockMilliseconds },
      shutDownLoops: { await group.shutDown() })
  }

  /// - Parameters:
  ///   - loops: at least one.
  ///   - wallClockMilliseconds: since 1970.
  init(
    loops: [any Loop], journal: EngineJournal?, wallClockMilliseconds: @escaping @Sendable () -> Int64,
    random: @escaping @Sendable () -> UInt64 = { .random(in: 0 ... .max) },
    shutDownLoops: @escaping @Sendable () async -> Void
  ) {
    (self.loops, self.journal, self.wallClockMilliseconds) = (loops, journal, wallClockMilliseconds)
    (self.random, self.shutDownLoops) = (random, shutDownLoops)
  }

  /// The loop for timers.
  var loop: any Loop { loops[0] }

  /// An app whose lanes are spread over the event loops.
  ///
  /// - Parameter seed: of the jitter of its back-off.
  package func makeApp(
    _ plan: AppPlan, seed: UInt64 = .random(in: 0 ... .max), tally: AppTally = AppTally(),
    events: (@Sendable (AppEvent) -> Void)? = nil
  ) -> App {
    let index = appCount.add(1, ordering: .relaxed).oldValue
    return App(
      configuration: plan.configuration, dialer: plan.dialer, loops: loops, firstLoop: index, seed: seed,
      budget: budget, journal: journal, tally: tally, events: events)
  }

  /// Ends the threads.
  package func shutDown() async {
    // Commit first: pending journal callbacks still need their loops. If the journal has failed,
    // all callbacks were called then.
    try? await journal?.makeDurable()
    await shutDownLoops()
  }
}

/// Dials with the credential that the app has at present.
final class DialerSwitch: Dialer {
  private let present: Mutex<any Dialer>

  init(_ dialer: any Dialer) { present = Mutex(dialer) }

  func replace(_ dialer: any Dialer) { present.withLock { $0 = dialer } }

  func dial(on loop: any Loop, delegate: any LinkDelegate) -> any Link {
    present.withLock { $0 }.dial(on: loop, delegate: delegate)
  }
}
