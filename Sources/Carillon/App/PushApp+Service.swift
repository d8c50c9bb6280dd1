internal import Foundation
package import Logging
package import PushEngine
internal import PushTransport
package import PushWire

/// What a service shows of an app: see `carillon serve`.
extension PushApp {
  /// What the app has done since the process began.
  package var tally: AppTally { entry.tally }
}

extension PushApp {
  /// Why the app's credential cannot be used; nil if it can.
  package var credentialDefect: String? { entry.credential.defect?.reason }

  /// Gives the app the credential and the limits (rate, weight, patience) of another configuration
  /// while it sends. Everything else of it stays as it is. Its connections stay too if the
  /// credential is the same, with the same content of its files.
  ///
  /// - Returns: whether it has another credential.
  /// - Throws: as ``replaceCredential(_:)``. Then nothing has changed.
  package func takeOver(_ configuration: AppConfiguration) async throws(CarillonError) -> Bool {
    try await core.reconfigure(entry, configuration, evenIfSame: false)
  }
}

extension PushApp {
  /// How much of its rate limit this process may use for a while; see ``Deployment/shareRates()``.
  package func useRate(perSecond: Double, for duration: Duration) {
    entry.engine?.useRate(perSecond: perSecond, for: duration)
  }

  /// How many connections this process may have, because others have some, too.
  package func limit(connections count: Int) { entry.engine?.limit(connections: count) }

  /// What was used of its rate limit since the last call.
  package func takeRateUse() -> RateUse { entry.engine?.takeRateUse() ?? RateUse() }
}

extension PushApp {
  /// ``resume()`` for an operator of a service: a credential that could not be used is read again
  /// first. If it still cannot, the app stays suspended.
  package func resumeWithCredential() async {
    if entry.credential.defect != nil {
      try? await core.replaceCredential(of: entry, entry.configuration.credential.settings)
    }
    resume()
  }
}

extension Deployment {
  /// The same for a service of many apps: one whose credential cannot be used begins suspended,
  /// with that as its reason, and keeps no other from working.
  ///
  /// - Throws: as ``init(apps:journal:threads:eventLoopGroup:shutdownTimeout:logger:)`` does, but
  ///   not because of a credential.
  package convenience init(
    serving apps: [AppConfiguration], journal: JournalSettings, shutdownTimeout: Duration, logger: Logger
  ) throws(CarillonError) {
    self.init(
      core: try DeploymentCore(
        apps: apps, journal: journal, loops: { LoopGroup(threads: ProcessInfo.processInfo.activeProcessorCount) },
        shutdownTimeout: shutdownTimeout, logger: logger, toleratesCredentials: true))
  }
}

extension Deployment {
  /// Lets `makeObserver` give each app an observer of its lanes. To be called once, before the
  /// deployment runs.
  package func observeLanes(_ makeObserver: @escaping @Sendable (_ app: String) -> any LaneObserver) {
    core.makeLaneObserver = makeObserver
  }

  /// Other processes keep the rate limits of the apps, too: an app sends nothing before it is told
  /// its share. To be called once, before the deployment runs.
  package func shareRates() { core.sharesRates = true }

  /// Until when this process may send what others can take over. In the beginning, for ever.
  package func extendLease(until end: Instant, now: Instant) { core.extendLease(until: end, now: now) }

  /// Calls `observe` after each commit of the journal. To be called once, before the deployment
  /// runs.
  ///
  /// - Parameter observe: gets how long the sync took (nil without one), and how long the oldest
  ///   record was not durable. It must return at once.
  package func observeCommits(_ observe: @escaping @Sendable (_ sync: Duration?, _ lag: Duration) -> Void) {
    core.journal?.observeCommits(observe)
  }

  /// Why the journal is not written any more, as a sentence; nil while it is.
  package var journalFailure: String? { core.journal?.failure }
}
