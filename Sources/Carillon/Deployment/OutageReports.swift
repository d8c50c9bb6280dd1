internal import Logging
internal import PushWire
internal import Synchronization

/// When an outage of one app is worth a line in the log: at its begin, after 1, 5 and 15 minutes,
/// every 15 minutes from then on, and at its end. Alarms and pages show the rest.
struct OutageReports: Sendable {
  /// When the last outage of which the log knows began.
  private var beganAt: Instant?
  /// How long the present outage must have lasted for the next line; nil: there is no outage of
  /// which the log knows.
  private var due: Duration?

  private static let first: [Duration] = [.seconds(60), .seconds(300), .seconds(900)]
  private static let interval = Duration.seconds(900)

  /// Nothing gets through.
  ///
  /// - Parameter duration: for how long.
  /// - Returns: whether to log it.
  mutating func waits(for duration: Duration, now: Instant) -> Bool {
    if let due {
      guard duration >= due else { return false }
    } else {
      // An app that stumbles again and again is not logged again and again.
      if let beganAt, now.since(beganAt) < Self.first[0] { return false }
      beganAt = now
    }
    due = Self.first.first { $0 > duration } ?? duration + Self.interval
    return true
  }

  /// Something gets through again, or the app is halted.
  ///
  /// - Returns: whether to log it: whether the log knows that there was an outage.
  mutating func ends() -> Bool {
    defer { due = nil }
    return due != nil
  }
}

/// Writes what happens to one app's connections to the log.
final class AppLog: Sendable {
  private let app: String
  private let logger: Logger
  private let reports = Mutex(OutageReports())

  init(app: String, logger: Logger) { (self.app, self.logger) = (app, logger) }

  func write(_ kind: DeploymentEvent.Kind, now: Instant) {
    switch kind {
    case .connected: logger.debug("connected", metadata: ["app": "\(app)"])
    case .connectionEnded(nil): logger.debug("connection ended", metadata: ["app": "\(app)"])
    case .connectionEnded(let reason?):
      logger.info("connection ended", metadata: ["app": "\(app)", "reason": "\(reason)"])
    case .waiting(let waiting):
      guard reports.withLock({ $0.waits(for: waiting.duration, now: now) }) else { return }
      logger.warning(
        "nothing gets through",
        metadata: ["app": "\(app)", "cause": "\(waiting.cause)", "for": "\(waiting.duration.spoken)"])
    case .progressing:
      guard reports.withLock({ $0.ends() }) else { return }
      logger.notice("something gets through again", metadata: ["app": "\(app)"])
    case .breakerTripped(let reason):
      logger.error("most device tokens are bad", metadata: ["app": "\(app)", "reason": "\(reason)"])
    case .suspended(let reason):
      _ = reports.withLock { $0.ends() }
      logger.error("app is suspended", metadata: ["app": "\(app)", "reason": "\(reason)"])
    case .paused:
      _ = reports.withLock { $0.ends() }
      logger.notice("app is paused", metadata: ["app": "\(app)"])
    case .resumed: logger.notice("app continues", metadata: ["app": "\(app)"])
    case .stopped(let reason): logger.error("app has stopped", metadata: ["app": "\(app)", "reason": "\(reason)"])
    }
  }
}
