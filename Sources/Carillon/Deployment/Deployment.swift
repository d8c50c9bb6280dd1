internal import Foundation
public import Logging
public import NIOPosix
package import PushEngine
internal import PushTransport
public import ServiceLifecycle

/// All apps of one process, their connections, and the journal that they share.
///
/// Make one, run it in a task of its own or as a service, and send through its apps:
///
/// ```swift
/// let deployment = try Deployment(apps: [news], journal: .directory("journal"))
///
/// try await withThrowingTaskGroup { group in
///   group.addTask { try await deployment.run() }
///   let app = try deployment.app("news")
///   let outcome = try await app.send(PushNotification(alert: "Hello"), to: token)
///   group.cancelAll()
/// }
/// ```
///
/// All connections belong to ``run()``. A call that needs a connection waits for it, and throws
/// ``CarillonError/ErrorCode/cancelled`` after it has ended.
///
/// When ``run()`` ends, by cancellation or by a graceful shutdown, single sends that were handed
/// over are still sent, campaigns stop reading, what is in flight gets its outcome, connections are
/// closed, and the journal is closed. That takes at most about twice the shutdown timeout.
public final class Deployment: Service, Sendable {
  let core: DeploymentCore

  /// Reads and checks the credentials of all apps, and opens the journal. Nothing is sent.
  ///
  /// - Parameters:
  ///   - apps: with different ids. More can be added later: ``add(_:)``.
  ///   - journal: whether what is unfinished survives the end of the process. Default: no.
  ///   - threads: event loops. Default: one for each processor.
  ///   - eventLoopGroup: whose event loops are used, and not ended, in place of threads of the
  ///     deployment's own. Default nil.
  ///   - shutdownTimeout: how long notifications in flight may take to get their outcome when
  ///     ``run()`` ends or an app is removed. Default 10 s.
  ///   - logger: where starts, ends and connection trouble are logged. Tokens and payloads are not.
  ///     Default nil: nowhere.
  /// - Throws: ``CarillonError/ErrorCode/configuration``,
  ///   ``CarillonError/ErrorCode/credential`` or
  ///   ``CarillonError/ErrorCode/journal``.
  public init(
    apps: [AppConfiguration], journal: JournalSettings = .none, threads: Int? = nil,
    eventLoopGroup: MultiThreadedEventLoopGroup? = nil, shutdownTimeout: Duration = .seconds(10), logger: Logger? = nil
  ) throws(CarillonError) {
    core = try DeploymentCore(
      apps: apps, journal: journal,
      loops: {
        eventLoopGroup.map { LoopGroup($0) }
          ?? LoopGroup(threads: max(1, threads ?? ProcessInfo.processInfo.activeProcessorCount))
      },
      shutdownTimeout: shutdownTimeout,
      logger: logger ?? Logger(label: "carillon") { _ in SwiftLogNoOpLogHandler() })
  }

  init(core: DeploymentCore) { self.core = core }

  /// For apps whose credentials were read before.
  ///
  /// - Parameter journal: stays open when the deployment ends.
  package init(_ apps: [AppEntry], journal: EngineJournal?) {
    core = DeploymentCore(
      apps, registry: ProviderTokenRegistry(), journal: journal, closesJournal: false,
      loops: { LoopGroup(threads: ProcessInfo.processInfo.activeProcessorCount) }, shutdownTimeout: .seconds(10),
      logger: Logger(label: "carillon") { _ in SwiftLogNoOpLogHandler() })
  }

  /// Serves all apps until the task is cancelled, or its service group shuts down gracefully.
  ///
  /// A deployment runs once.
  ///
  /// - Throws: ``CarillonError/ErrorCode/journal`` if the journal could not be closed in
  ///   good order, and ``CarillonError/ErrorCode/configuration`` if it has run before.
  public func run() async throws {
    let core = core
    try await withGracefulShutdownHandler {
      try await core.run()
    } onGracefulShutdown: {
      core.end()
    }
  }

  /// As cancelling the task of ``run()``.
  package func end() { core.end() }

  /// What has its outcome is not in the journal any more.
  package func renewJournal() { core.journal?.renew() }

  /// What happens to the connections of all apps.
  ///
  /// Each loop over it hears of what happens from its beginning on, until the deployment ends. One
  /// that falls behind by more than 1,024 events loses the oldest:
  /// ``DeploymentEvent/droppedCount``.
  public var events: some AsyncSequence<DeploymentEvent, Never> & Sendable {
    MulticastSequence(source: core.events) { event, droppedCount in
      DeploymentEvent(app: event.app, kind: event.kind, droppedCount: droppedCount)
    }
  }

  /// The handle of an app.
  ///
  /// - Parameter id: the app's ``AppConfiguration/id``.
  /// - Throws: ``CarillonError/ErrorCode/configuration`` if there is none.
  public func app(_ id: String) throws(CarillonError) -> PushApp { PushApp(try core.entry(id), core) }

  /// The handles of all apps, in the order in which they were added.
  public var apps: [PushApp] { core.entries.map { PushApp($0, core) } }

  /// Adds an app, at any time. Its credential is read and checked.
  ///
  /// - Returns: the app's handle.
  /// - Throws: ``CarillonError/ErrorCode/configuration`` or
  ///   ``CarillonError/ErrorCode/credential``.
  @discardableResult
  public func add(_ app: AppConfiguration) throws(CarillonError) -> PushApp { PushApp(try core.add(app), core) }

  /// Removes an app, and returns when its connections are closed.
  ///
  /// Single sends that were handed over are still sent, campaigns are cancelled (with a journal
  /// they stay unfinished there), and what is in flight gets its outcome, for at most the shutdown
  /// timeout.
  ///
  /// - Parameter id: the app's ``AppConfiguration/id``.
  /// - Throws: ``CarillonError/ErrorCode/configuration`` if there is none.
  public func remove(_ id: String) async throws(CarillonError) { try await core.remove(id) }
}
