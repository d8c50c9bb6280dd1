/// What the rules of an app's lanes say besides ``LanePolicy`` when they speak HTTP/2 (HTTP2ProviderAPI.md, "What our sender makes of it").
package struct RequestPolicy: Sendable {
  /// The most requests in flight on one connection that a setting may ask for: a request's tag has 16 bits for its place.
  package static let streamCountLimit = 65_535
  /// The most attempts that a setting may ask for.
  package static let attemptCountLimit = 1000

  /// A request without an answer for so long is given up: its notification may have been taken. Default 30 s.
  package var timeout = Duration.seconds(30)
  /// With requests under way and nothing heard for so long, the peer is asked whether it lives. Default 10 s.
  package var silence = Duration.seconds(10)
  /// A PING without an answer for so long means that the connection is dead. Default 30 s.
  package var pingTimeout = Duration.seconds(30)
  /// An idle connection that is kept is tried so often. Default 1 h, as the service asks.
  package var pingInterval = Duration.seconds(3_600)
  /// An idle connection that is not among those to be kept is left after so long. Default 3 min.
  package var idle = Duration.seconds(180)
  /// Before the first repetition of what the service could not do (5xx), and the longest such wait; twice as long each time. Default 1 s to 60 s.
  package var backoff = Duration.seconds(1) ... .seconds(60)
  /// The same for a device token that has had too many requests (429).
  package var tokenDelay = Duration.seconds(1) ... .seconds(60)
  /// Where the service itself says how long, it is believed up to this. Default 5 min.
  package var retryAfterLimit = Duration.seconds(300)
  /// With so many notifications of a lane waiting to be sent again, nothing new is sent: a service in trouble is not given more of it. Default 4096.
  package var waitingLimit = 4_096

  /// A known mistake for the simulation to find, so that we know that it can. Only tests set it.
  package var plantedMistake: PlantedMistake?

  package enum PlantedMistake: Sendable, CaseIterable {
    /// A connection that ends takes requests with it that count as never processed, as in senders that hand them back as "unsent".
    case lossIsUnprocessed
    /// What a GOAWAY or REFUSED_STREAM gives up counts as done.
    case unprocessedIsForgotten
    /// An answer also settles the notification behind its own.
    case neighbourIsSettled
    /// A request that got no answer in time is sent again as if it could not have arrived.
    case timeoutIsHarmless
    /// A refused credential rejects the notifications that were in flight.
    case credentialRejectsNotification
    /// Attempts are counted while the service answers nothing but 5xx.
    case outageCountsAttempts
    /// A certificate alert means that nothing was read, even on a connection that has worked.
    case lateAlertIsRefusal
  }

  package init() {}
}
