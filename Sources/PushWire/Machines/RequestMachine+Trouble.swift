// The machine's behaviour while the service puts notifications off or gives no answers.
//
// An outage concerns the app, not a notification. It begins after ten answers in a row that are not
// final. Then the lane sends single requests, with back-off, until one of them gets a final answer,
// and after some of them on another connection. How long an app keeps trying is decided by
// ``ProgressWatchdog``.

extension RequestMachine {
  /// What keeps the lane from progress.
  package enum Cause: Hashable, Sendable {
    /// The service put the notification off.
    case refusal(ProviderRefusal)
    /// No answer came in time.
    case noAnswer
    /// The peer reset the stream of a request.
    case streamReset
    /// An answer that is not part of the protocol.
    case meaninglessAnswer
    /// The peer refused the stream of a request: REFUSED_STREAM.
    case streamRefused
  }

  package struct Trouble: Hashable, Sendable {
    package var cause: Cause
    /// When the lane tries again; nil: at once, or after an event.
    package var nextTryAt: Instant?
  }

  /// The service gives no final answers.
  struct Outage {
    /// How many single requests in a row have failed.
    var failures = 0
    /// Requests from this number on were sent one at a time.
    var firstSerial: UInt64
    /// When the next one may be sent; nil: now.
    var retryAt: Instant?
  }

  /// This many answers in a row that are not final make an outage. Fewer may be a burst.
  private static let outageCount = 10

  /// A final answer has arrived.
  mutating func serviceIsWell(_ tag: UInt64) {
    lastGoodSerial = max(lastGoodSerial, RequestsInFlight.serial(of: tag))
    troubleCount = 0
    guard let outage else { return }
    self.outage = nil
    // What waited because of the outage continues. Without a failed trial it was only a burst.
    if outage.failures > 0 { retries.hasten { !$0.isPaced } }
  }

  /// An answer was not final, or there was none.
  private mutating func serviceIsTroubled(_ tag: UInt64, retryAfter: Duration, now: Instant) {
    troubleCount += 1
    if var outage {
      if RequestsInFlight.serial(of: tag) >= outage.firstSerial {
        outage.failures += 1
        connection.failedTrialCount += 1
        if connection.isToBeReplaced, requests.plantedMistake != .keepsSickConnection { goingAway() }
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

  /// How many requests may be added now, out of `room`.
  mutating func roomDuringOutage(_ room: Int, now: Instant) -> Int {
    guard let outage else { return room }
    if let retryAt = outage.retryAt, retryAt <= now { self.outage?.retryAt = nil }
    return self.outage?.retryAt == nil && inFlight.count == 0 ? min(room, 1) : 0
  }

  /// Whether a later request has got a final answer.
  func hasLaterAnswer(_ tag: UInt64) -> Bool { lastGoodSerial > RequestsInFlight.serial(of: tag) }

  /// The service has put the notification off. It is resent later, until its attempts are used up.
  ///
  /// Such an answer counts as an attempt only if the service has answered other requests since.
  /// Otherwise it may be refusing everything. This is known only when the next such answer arrives.
  ///
  /// - Returns: when it is resent.
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

  /// A request has ended without an answer, so the notification's outcome is not known.
  mutating func endedWithoutAnswer(_ tag: UInt64, _ entry: RequestEntry, _ cause: Cause, now: Instant) {
    let isKnownToWork = hasLaterAnswer(tag)
    let isAlone = inFlight.count == 0
    serviceIsTroubled(tag, retryAfter: .zero, now: now)
    var retryAt: Instant?
    var entry = entry
    if !isKnownToWork {
      // Others come first: a notification without an answer does not show whether the service works
      // again.
      retryAt = entry.nextRetry(requests.backoff, &jitter, now: now)
    }
    endedUnknown(entry, countsAsTry: isKnownToWork || isAlone, retryAt: retryAt)
    effects.trouble = Trouble(cause: cause, nextTryAt: outage?.retryAt ?? retryAt)
  }

  var attempts: UInt16 { UInt16(clamping: policy.attempts) }
}

extension RequestMachine.Connection {
  /// Behind the gateway's address, the next connection may reach another machine, which is well.
  var isToBeReplaced: Bool { failedTrialCount >= 3 }
}

extension RequestEntry {
  /// When it is resent; the pause grows each time.
  mutating func nextRetry(_ range: ClosedRange<Duration>, _ jitter: inout Jitter, now: Instant) -> Instant {
    defer { if deferrals < .max { deferrals += 1 } }
    return now + jitter.apply(to: range.delay(Int(deferrals)))
  }
}

extension ClosedRange<Duration> {
  /// The lower bound doubled this many times, at most the upper bound.
  fileprivate func delay(_ doublings: Int) -> Duration {
    Swift.min(upperBound, lowerBound * (1 << Swift.min(doublings, 20)))
  }
}

extension Outcome {
  /// What a refusal that puts the notification off becomes after the last attempt.
  var afterLastAttempt: Outcome {
    if case .rejected(.provider(let refusal)) = self { .rejected(.gaveUp(refusal)) } else { self }
  }
}
