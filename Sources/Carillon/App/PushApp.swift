public import Foundation
internal import PushEngine
internal import PushTransport
internal import PushWire

/// One app of a deployment: sends notifications to its devices.
///
/// A handle costs nothing to make and to copy. Every call that needs a connection waits until
/// ``Deployment/run()`` has begun.
public struct PushApp: Sendable, Identifiable {
  let entry: AppEntry
  let core: DeploymentCore

  init(_ entry: AppEntry, _ core: DeploymentCore) { (self.entry, self.core) = (entry, core) }

  /// The app's ``AppConfiguration/id``.
  public var id: String { entry.id }

  /// The configuration that was given to the deployment.
  public var configuration: AppConfiguration { entry.configuration }

  /// Sends one notification and returns how that ended.
  ///
  /// Notifications of many callers share connections, batches and records. When more than
  /// ``pendingLimit`` of an app wait for their outcome, the call waits for its turn; cancelling the
  /// task then takes the notification back. Once it was handed over, cancelling has no effect.
  ///
  /// With a journal, what was handed over survives the end of the process: the next one finds it
  /// among ``Deployment/unfinishedCampaigns``. An orderly end leaves nothing, since every caller
  /// got an outcome.
  ///
  /// - Returns: the outcome. That the gateway refuses the notification is no error.
  /// - Throws: ``CarillonError/ErrorCode/payload`` if the gateway would refuse the
  ///   notification whatever the device, ``CarillonError/ErrorCode/gateway`` if the app has
  ///   stopped, ``CarillonError/ErrorCode/journal`` if the journal cannot be written, and
  ///   ``CarillonError/ErrorCode/cancelled`` if it was not handed over because the
  ///   deployment has ended, the app was removed or the task was cancelled.
  public func send(_ notification: PushNotification, to token: DeviceToken) async throws(CarillonError) -> PushOutcome {
    let runtime = try await core.runtime(of: entry)
    let prepared = try prepare(notification)
    return try await runtime.sends.send(prepared, to: token)
  }

  /// The most single notifications of one app that may wait for their outcome at a time; further
  /// calls of ``send(_:to:)->PushOutcome`` wait.
  public static let pendingLimit = 10_000

  /// Sends several notifications and returns their outcomes, in the same order.
  ///
  /// Faster than a task for each. When the task is cancelled, notifications that were not handed
  /// over by then end as ``PushOutcome/cancelled``.
  ///
  /// - Throws: as ``send(_:to:)->PushOutcome``:
  ///   ``CarillonError/ErrorCode/payload`` before anything is sent,
  ///   other errors when every notification that was handed over has its outcome.
  public func send(_ batch: [(PushNotification, DeviceToken)]) async throws(CarillonError) -> [PushOutcome] {
    let runtime = try await core.runtime(of: entry)
    return try await runtime.sends.send(try prepare(batch))
  }

  /// Sends one notification to several devices and returns the outcomes, in the same order.
  ///
  /// - Throws: as ``send(_:)``.
  public func send(
    _ notification: PushNotification, to tokens: [DeviceToken]
  ) async throws(CarillonError) -> [PushOutcome] {
    let runtime = try await core.runtime(of: entry)
    let prepared = try prepare(notification)
    return try await runtime.sends.send(tokens.map { (prepared, $0) })
  }

  /// What is wrong with a notification, or looks wrong, if this app sends it; empty if nothing is.
  ///
  /// Nothing is sent. Of a notification with placeholders a sample is checked.
  public func check(_ notification: PushNotification) -> [NotificationFinding] {
    let (app, kind) = (entry.configuration, entry.credential.kind)
    let json = (try? PayloadTemplate(parsing: notification.json))?.sample ?? notification.json
    let expiration = notification.expiration?.sharedUnixSeconds(now: core.wallClock)
    let headers = PreparedNotification.headers(notification, app: app, kind: kind, expiration: expiration)
    return PreparedNotification.findings(
      payload: json, priority: notification.priority?.rawValue, app: app, kind: kind, headers: headers
    ).map { NotificationFinding(isError: $0.severity == .error, path: $0.path.description, message: $0.sentence) }
  }

  /// Gives the app another credential while it sends.
  ///
  /// The files are read and checked first; if they cannot be used, nothing changes. New connections
  /// show the new credential from then on. Those that show the old one take nothing new, and are
  /// closed when what is in flight on them has its outcome. Campaigns and single sends continue. An
  /// app that has stopped starts again.
  ///
  /// - Throws: ``CarillonError/ErrorCode/credential`` or
  ///   ``CarillonError/ErrorCode/configuration``.
  public func replaceCredential(_ credential: AppConfiguration.Credential) async throws(CarillonError) {
    try await core.replaceCredential(of: entry, credential.settings)
  }

  /// Why the app has stopped or is suspended, in one sentence; nil while it is not, and before the
  /// deployment runs. See ``DeploymentEvent/Kind-swift.enum/stopped(reason:)``.
  public var stopReason: String? { entry.runtime.flatMap { $0.app.failure ?? $0.app.halt.suspension } }

  /// As ``stopReason``, but nil also if the app tries again by itself.
  package var lastingStopReason: String? {
    guard let app = entry.runtime?.app else { return nil }
    let halt = app.halt
    return app.failure ?? (halt.retryAt == nil ? halt.suspension : nil)
  }

  /// Lets nothing new be sent until ``resume()``.
  ///
  /// What is in flight gets its outcome; then the app's connections are closed, and none is opened.
  /// Campaigns and single sends wait. A pause may begin before the deployment runs, and does not
  /// outlast the process.
  public func pause() {
    entry.isPaused = true
    entry.runtime?.app.pause()
  }

  /// Resumes a paused app where it was. Ends a suspension too.
  public func resume() {
    entry.isPaused = false
    entry.runtime?.app.resume()
    entry.runtime?.suspendWithoutCredential()
  }

  /// Whether ``pause()`` was called, and ``resume()`` not since.
  public var isPaused: Bool { entry.isPaused }

  /// Starts an app that has stopped, after the reason was removed elsewhere.
  ///
  /// Its campaigns have ended when it stopped; with a journal they stay unfinished there, for the
  /// next process. An app that has not stopped stays as it is.
  public func restart() async { await core.restart(entry) }

  /// Devices that no longer have the app, as the service finds them: 410 over HTTP/2. Over the
  /// binary protocol the feedback service lists them: ``feedback(from:)``.
  ///
  /// Each loop over it hears of what is found from its beginning on, until the app is removed or
  /// the deployment ends. One that falls behind by more than 16,384 devices loses the oldest.
  /// Devices that a campaign found can be had from its `notAccepted` without any loss.
  public var goneDevices: some AsyncSequence<GoneDevice, Never> & Sendable {
    MulticastSequence(source: entry.goneDevices) { device, _ in device }
  }

  func prepare(
    _ batch: [(PushNotification, DeviceToken)]
  ) throws(CarillonError) -> [(PreparedNotification, DeviceToken)] {
    var prepared: [(PreparedNotification, DeviceToken)] = []
    prepared.reserveCapacity(batch.count)
    var last: (notification: PushNotification, prepared: PreparedNotification)?
    for (notification, token) in batch {
      let known = last?.notification == notification ? last?.prepared : nil
      let one = if let known { known } else { try prepare(notification) }
      last = (notification, one)
      prepared.append((one, token))
    }
    return prepared
  }

  /// Checks a notification, and makes it ready for any number of devices.
  ///
  /// - Throws: ``CarillonError/ErrorCode/payload`` for what the gateway would refuse.
  package func prepare(_ notification: PushNotification) throws(CarillonError) -> PreparedNotification {
    try PreparedNotification(
      notification, payload: notification.json, app: entry.configuration, kind: entry.credential.kind,
      now: core.wallClock)
  }
}

/// One thing that is wrong with a notification, or looks wrong.
public struct NotificationFinding: Hashable, Sendable, CustomStringConvertible {
  /// The gateway would refuse it, so it is not sent. False: it may be meant so.
  public let isError: Bool
  /// Where in the payload, such as `$.aps.badge`; `$` for the notification as a whole.
  public let path: String
  /// A sentence.
  public let message: String

  /// Such as `error at $.aps.badge: It must be a whole number, not a string.`
  public var description: String { "\(isError ? "error" : "warning") at \(path): \(message)" }
}

extension PushApp {
  /// A device that no longer has the app.
  public struct GoneDevice: Hashable, Sendable {
    /// The device's token: nothing should be sent to it any more.
    public let token: DeviceToken
    /// When the service last found that it is gone, if the service said so. A token that was
    /// registered again after this time is good.
    public let since: Date?

    /// Names a device that no longer has the app.
    ///
    /// - Parameters:
    ///   - token: the device's token.
    ///   - since: when it was found that it is gone. Default nil: not known.
    public init(token: DeviceToken, since: Date? = nil) { (self.token, self.since) = (token, since) }

    /// Nil unless the outcome says that the device is gone.
    ///
    /// - Parameter token: in hexadecimal digits.
    init?(_ token: String, _ outcome: PushWire.Outcome, goneSince: UInt64?) {
      guard outcome.saysGone, let token = try? DeviceToken(hex: token) else { return nil }
      self.init(token: token, since: PushOutcome(outcome, goneSince: goneSince).rejection?.goneSince)
    }
  }
}
