internal import Foundation
internal import NIOCore
internal import NIOPosix
internal import PushEngine
internal import PushTransport
internal import Support
internal import Synchronization
internal import Testing

@testable internal import Carillon
@testable internal import PushServer
@testable internal import PushService
@testable internal import PushStore
@testable internal import PushStoreSQLite

/// Blocks every thread that comes, until it is opened for good.
private final class Turnstile: Sendable {
  private let semaphore = DispatchSemaphore(value: 0)

  func open() { semaphore.signal() }

  func pass() {
    semaphore.wait()
    semaphore.signal()
  }
}

/// The watchdog is fed as long as every part makes progress.
@Suite(.timeLimit(.minutes(10)))
struct SupervisionTests {
  enum Part: String, CaseIterable {
    case apiLoop = "event loop 0 of the API"
    case engineLoop = "event loop 1 of the engine"
    case journal = "the journal"
    case storeWriter = "the store"
  }

  /// Everything that is supervised, without apps.
  private final class Process: Sendable {
    let manager: DatagramSocket
    let supervision: Supervision
    let deployment: Deployment
    let loops = MultiThreadedEventLoopGroup(numberOfThreads: 2)
    /// Opened once the part is to be free again.
    let gate = Turnstile()
    private let place: Workplace
    private let store: SQLiteStore
    private let outcomes: OutcomeRecorder
    private let written = Lines()

    private final class Lines: Sendable {
      let all = Mutex<[String]>([])
    }

    init() throws {
      (place, manager) = (try Workplace(), try DatagramSocket())
      store = try SQLiteStore(path: place.path("store.db"))
      outcomes = OutcomeRecorder(store: store)
      deployment = try Deployment(apps: [], journal: .directory(place.path("journal")), threads: 2)
      let log = ServiceLog(ServerConfiguration.Log()) { [written] line in written.all.withLock { $0.append(line) } }
      supervision = Supervision(
        manager: ServiceManager(environment: ["NOTIFY_SOCKET": manager.path, "WATCHDOG_USEC": "200000"]),
        deployment: deployment, store: store, outcomes: outcomes, logger: log.logger, loops: loops)
    }

    var log: [String] { written.all.withLock { $0 } }
    var feedCount: Int { manager.received.count { $0 == "WATCHDOG=1" } }

    /// Lets a part wait until the gate opens.
    func stop(_ part: Part) throws {
      let gate = gate
      switch part {
      case .apiLoop: try #require(loops.makeIterator().first { _ in true }).execute { gate.pass() }
      case .engineLoop: try #require(deployment.core.runningEngine).loops[1].execute { gate.pass() }
      case .journal:
        let journal = try #require(deployment.core.journal)
        journal.writeSettlements(after: {}, intakeAfter: { gate.pass() })
        // Something to be written.
        let campaign = EngineJournal.Beginning(app: "news", campaign: Campaign(payload: []), context: [])
        _ = Task { try await journal.begin([campaign]) }
      case .storeWriter:
        let (store, outcomes) = (store, outcomes)
        _ = Task {
          try await store.writer.write { _ in
            // Something to be written, and not before.
            outcomes.gone(app: "news", token: String(repeating: "0a", count: 32), since: nil)
            gate.pass()
          }
        }
      }
    }

    func close() async throws {
      try await loops.shutdownGracefully()
      try store.close()
    }
  }

  @Test(
    "a part that is stuck is named in the log and ends the messages; they go on when it is free",
    arguments: Part.allCases)
  func stuck(part: Part) async throws {
    let process = try Process()
    try await withThrowingTaskGroup(of: Void.self) { tasks in
      tasks.addTask { try await process.deployment.run() }
      tasks.addTask { try await process.supervision.run() }
      try await waitUntil("the watchdog is fed") { process.feedCount >= 2 }
      try process.stop(part)
      defer { process.gate.open() }
      try await waitUntil("the log names \(part.rawValue)", limit: .seconds(120)) {
        process.log.contains { $0.contains("no progress") && $0.contains(part.rawValue) }
      }
      // On a busy machine a part can be late before it is stuck.
      try await waitUntil("the watchdog is not fed any more", limit: .seconds(120)) {
        let (feedCount, lineCount) = (process.feedCount, process.log.count)
        try await waitUntil("it is asked again", limit: .seconds(120)) { process.log.count >= lineCount + 3 }
        return process.feedCount == feedCount
      }
      let feedCount = process.feedCount
      process.gate.open()
      try await waitUntil("the watchdog is fed again", limit: .seconds(120)) { process.feedCount > feedCount }
      tasks.cancelAll()
      try await tasks.waitForAll()
    }
    try await process.close()
  }

  @Test("a service manager that reads nothing does not hold the process up")
  func managerWithoutReading() async throws {
    let socket = try DatagramSocket()
    let manager = try #require(ServiceManager(environment: ["NOTIFY_SOCKET": socket.path]))
    let isOver = Mutex(false)
    // More than a socket keeps, on a thread of its own: a task that blocks would stop the others.
    Thread.detachNewThread {
      for _ in 0..<10_000 { manager.notify(.watchdog) }
      isOver.withLock { $0 = true }
    }
    defer { _ = socket.received }
    try await waitUntil("all are sent or left out", limit: .seconds(120)) { isOver.withLock(\.self) }
    #expect(!socket.received.isEmpty)
  }
}
