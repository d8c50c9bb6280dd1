/// The rules of an app's HTTP/2 lanes in addition to ``LanePolicy`` (HTTP2ProviderAPI.md, "What our
/// sender makes of it").
package struct RequestPolicy: Sendable {
  /// The largest setting for requests in flight on one connection. A request's tag has 16 bits for
  /// its slot.
  package static let streamCountLimit = 65_535
  /// The largest setting for attempts.
  package static let attemptCountLimit = 1000

  /// A request without an answer for this long is given up; its notification may have been
  /// accepted. Default 30 s.
  package var timeout = Duration.seconds(30)
  /// With requests in flight and nothing received for this long, a PING is sent. Default 10 s.
  package var silence = Duration.seconds(10)
  /// A PING without an answer for this long means that the connection is dead. Default 30 s.
  package var pingTimeout = Duration.seconds(30)
  /// How often a PING is sent on an idle connection that is kept. Default 1 h, as the service asks.
  package var pingInterval = Duration.seconds(3_600)
  /// How long an idle connection that is not kept stays open. Default 3 min.
  package var idle = Duration.seconds(180)
  /// The first and the longest pause before retrying what the service could not do (5xx). Each
  /// pause is twice as long as the last. Default 1 s to 60 s.
  package var backoff = Duration.seconds(1) ... .seconds(60)
  /// The same pauses for a device token that has had too many requests (429).
  package var tokenDelay = Duration.seconds(1) ... .seconds(60)
  /// The longest pause that is accepted from the service. Default 5 min.
  package var retryAfterLimit = Duration.seconds(300)
  /// While this many notifications of a lane wait to be resent, nothing new is sent, because the
  /// service is in trouble. Default 4096.
  package var waitingLimit = 4_096

  /// A known mistake that the simulation must find, which proves that it can. Only tests set it.
  package var plantedMistake: PlantedMistake?

  package enum PlantedMistake: Sendable, CaseIterable {
    /// Requests on a connection that ends count as never processed, as in senders that return them
    /// as "unsent".
    case lossIsUnprocessed
    /// Requests that a GOAWAY or REFUSED_STREAM ends count as accepted.
    case unprocessedIsForgotten
    /// An answer also settles the next notification.
    case neighbourIsSettled
    /// A request that timed out is resent as if it could not have arrived.
    case timeoutIsHarmless
    /// A refused credential rejects the notifications that were in flight.
    case credentialRejectsNotification
    /// Attempts are counted while the service answers nothing but 5xx.
    case outageCountsAttempts
    /// A certificate alert counts as proof that nothing was read, even on a connection that has
    /// worked.
    case lateAlertIsRefusal
    /// A connection on which the service answers nothing but 5xx stays.
    case keepsSickConnection
  }

  package init() {}
}
