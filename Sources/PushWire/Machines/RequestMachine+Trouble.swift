// What the machine does while the service puts notifications off, or gives no answers.
//
// An outage is the app's trouble and no verdict on a notification. It begins after ten answers in a row
// that were no final ones. Then the lane sends single requests, with back-off, until one of them gets a
// final answer. How long an app goes on trying is decided above: see ``TroubleMachine``.

extension RequestMachine {
  /// Something that keeps the lane from progress.
  package enum Cause: Hashable, Sendable {
    /// The service answered "not now".
    case refusal(ProviderRefusal)
    /// No answer came in time.
    case noAnswer
    /// The peer reset the stream of a request.
    case streamReset
    /// An answer that the protocol does not know.
    case meaninglessAnswer
    /// REFUSED_STREAM.
    case streamRefused
  }

  package struct Trouble: Hashable, Sendable {
    package var cause: Cause
    /// Nil: at once, or when something happens.
    package var nextTryAt: Instant?
  }

  /// The service gives no final answers.
  struct Outage {
    /// Single requests that failed, in a row.
    var failures = 0
    /// Requests from this number on were sent one at a time.
    var firstSerial: UInt64
    /// When the next one may be sent; nil: now.
    var retryAt: Instant?
  }

  /// So many answers in a row that were no final ones are an outage: fewer may be a burst.
  private static let outageCount = 10

  /// A final answer has come.
  mutating func serviceIsWell(_ tag: UInt64) {
    lastGoodSerial = max(lastGoodSerial, RequestsInFlight.serial(of: tag))
    troubleCount = 0
    guard let outage else { return }
    self.outage = nil
    // What waited because of the outage goes on. Without a failed trial it was only a burst.
    if outage.failures > 0 { retries.hasten { !$0.isPaced } }
  }

  /// An answer was not a final one, or none came.
  private mutating func serviceIsTroubled(_ tag: UInt64, retryAfter: Duration, now: Instant) {
    troubleCount += 1
    if var outage {
      if RequestsInFlight.serial(of: tag) >= outage.firstSerial {
        outage.failures += 1
        outage.firstSerial = inFlight.nextSerial
        outage.retryAt = now + jitter.apply(to: requests.backoff.delay(outage.failures))
      }
      if let retryAt = outage.retryAt { outage.retryAt = max(retryAt, now + retryAfter) }
      self.outage = outage
    } else if troubleCount >= Self.outageCount {
      let delay = max(jitter.apply(to: requests.backoff.delay(0)), retryAfter)
      outage = Outage(firstSerial: inFlight.nextSerial, retryAt: now + delay)
    }
  }

  /// How many requests may be added at present, of `room`.
  mutating func roomDuringOutage(_ room: Int, now: Instant) -> Int {
    guard let outage else { return room }
    if let retryAt = outage.retryAt, retryAt <= now { self.outage?.retryAt = nil }
    return self.outage?.retryAt == nil && inFlight.count == 0 ? min(room, 1) : 0
  }

  /// Whether a request that was sent later has got a final answer.
  func hasLaterAnswer(_ tag: UInt64) -> Bool { lastGoodSerial > RequestsInFlight.serial(of: tag) }

  /// The service answered "not now". The notification is sent again later, until its attempts are used up.
  ///
  /// Such an answer counts as an attempt only if the service has answered other requests since: otherwise
  /// it may refuse everything. That is known when the next such answer comes.
  ///
  /// - Returns: when it is sent again.
  mutating func backOff(
    _ tag: UInt64, _ entry: RequestEntry, _ delay: ClosedRange<Duration>, outcome: Outcome, retryAfter: UInt32?,
    isPaced: Bool = false, now: Instant
  ) -> Instant? {
    var entry = entry
    entry.refusals = 0
    entry.refusedStreams = 0
    entry.countDeferral(lastGoodSerial: requests.plantedMistake == .outageCountsAttempts ? .max : lastGoodSerial)
    entry.putOffMark = inFlight.nextSerial
    entry.isPaced = isPaced
    let asked = retryAfter.map { min(requests.retryAfterLimit, Duration.seconds(Int64($0))) } ?? .zero
    connection.trialCount = nil
    serviceIsTroubled(tag, retryAfter: asked, now: now)
    var until: Instant?
    if entry.tries < attempts {
      let instant = max(entry.nextRetry(delay, &jitter, now: now), now + asked)
      retries.append(entry, at: instant)
      until = instant
    } else {
      settleFinally(entry, as: entry.isInDoubt ? .unknown : outcome.afterLastAttempt)
    }
    if case .rejected(.provider(let refusal)) = outcome {
      effects.trouble = Trouble(cause: .refusal(refusal), nextTryAt: outage?.retryAt ?? until)
    }
    return until
  }

  /// A request has ended without an answer that says what became of the notification.
  mutating func endedWithoutAnswer(_ tag: UInt64, _ entry: RequestEntry, _ cause: Cause, now: Instant) {
    let isKnownToWork = hasLaterAnswer(tag)
    let isAlone = inFlight.count == 0
    serviceIsTroubled(tag, retryAfter: .zero, now: now)
    var retryAt: Instant?
    var entry = entry
    if !isKnownToWork {
      // Others first: one that gets no answer is not what tells whether the service is well again.
      retryAt = entry.nextRetry(requests.backoff, &jitter, now: now)
    }
    endedUnknown(entry, countsAsTry: isKnownToWork || isAlone, retryAt: retryAt)
    effects.trouble = Trouble(cause: cause, nextTryAt: outage?.retryAt ?? retryAt)
  }

  var attempts: UInt16 { UInt16(clamping: policy.attempts) }
}

extension RequestEntry {
  /// When it is sent again, longer each time.
  mutating func nextRetry(_ range: ClosedRange<Duration>, _ jitter: inout Jitter, now: Instant) -> Instant {
    defer { if deferrals < .max { deferrals += 1 } }
    return now + jitter.apply(to: range.delay(Int(deferrals)))
  }
}

extension ClosedRange<Duration> {
  /// The lower bound doubled so many times, at most the upper one.
  fileprivate func delay(_ doublings: Int) -> Duration {
    Swift.min(upperBound, lowerBound * (1 << Swift.min(doublings, 20)))
  }
}

extension Outcome {
  /// What a refusal "not now" becomes when it was the last attempt.
  var afterLastAttempt: Outcome {
    if case .rejected(.provider(let refusal)) = self { .rejected(.gaveUp(refusal)) } else { self }
  }
}
