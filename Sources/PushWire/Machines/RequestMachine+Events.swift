// Events of the lane, and what follows for the notifications concerned.

extension RequestMachine {
  // MARK: The connection

  package mutating func dialled() {
    phase = .dialling
    connection = Connection()
  }

  /// No connection is possible before this time: a token may not be replaced yet.
  package mutating func postponed(until instant: Instant) { phase = .disconnected(retryAt: instant) }

  package mutating func opened(now: Instant) {
    phase = .open
    let trialCount: Int? = isOnTrial ? 1 : isProven ? nil : Self.unprovenRequestLimit
    connection = Connection(heardAt: now, activeAt: now, trialCount: trialCount)
  }

  /// Bytes have arrived from the peer.
  package mutating func heard(now: Instant) {
    connection.heardAt = now
    connection.hasHeard = true
    connection.unheardSince = nil
  }

  package mutating func pong(_ number: UInt64) {
    guard connection.ping?.number == number else { return }
    connection.ping = nil
    if connection.controlPing == number { connection.isControlled = true }
  }

  /// The peer has sent a GOAWAY, or the connection cannot be used for another reason. Requests in
  /// flight are waited for.
  package mutating func goingAway() { connection.isFinishing = true }

  /// The link has closed, or could not be opened. Requests that had not been sent must have been
  /// reported before, with ``ended(_:_:now:)``.
  package mutating func closed(_ closure: LaneClosure, now: Instant) {
    let wasSearching = search != nil
    let hasSucceeded = connection.hasMadeProgress || connection.isControlled || connection.endedIdle
    if wasSearching, !hasSucceeded { controlFailed() }
    let lostCount = inFlight.count
    if closure == .nothingWasRead && !connection.hasHeard || requests.plantedMistake == .lossIsUnprocessed
      || closure == .nothingWasRead && requests.plantedMistake == .lateAlertIsRefusal
    {
      while let oldest = inFlight.oldest, let entry = inFlight.remove(oldest.tag) { retries.append(entry) }
    } else if closure != .byUs, policy.onUnknown == .resend, !isPaused {
      lostInCut()
    } else {
      lostUnanswered(now: now)
    }
    var delay = Duration.zero
    if connection.hasMadeProgress {
      backoff.succeeded()
      isOnTrial = false
      search?.fruitlessCount = 0
    } else if wasSearching, lostCount > 0, let count = search?.fruitlessCount, count < Self.fruitlessSearchLimit {
      search?.fruitlessCount = count + 1
    } else if !connection.endedIdle, !connection.isToBeReplaced {
      delay = backoff.failed()
      if connection.sentCount > 0, search == nil { isOnTrial = true }
    }
    phase = .disconnected(retryAt: now + delay)
  }

  /// The lane has closed the connection of a peer that gave no answers. None of its requests is
  /// known to be the cause.
  private mutating func lostUnanswered(now: Instant) {
    let isAlone = inFlight.count == 1
    while let oldest = inFlight.oldest, var entry = inFlight.remove(oldest.tag) {
      let isKnownToWork = hasLaterAnswer(oldest.tag)
      let retryAt = isKnownToWork ? nil : entry.nextRetry(requests.backoff, &jitter, now: now)
      endedUnknown(entry, countsAsTry: isAlone || isKnownToWork, retryAt: retryAt)
    }
  }

  // MARK: A notification's turn

  /// A request for it has been submitted, with ``nextTag`` as it was before this call.
  package mutating func submitted(_ entry: RequestEntry, streamID: Int32, now: Instant) {
    takeTurn(entry)
    inFlight.insert(entry, streamID: streamID, now: now)
    connection.activeAt = now
    connection.unheardSince = connection.unheardSince ?? now
    connection.sentCount += 1
  }

  /// It has its outcome without being sent.
  package mutating func passed(_ entry: RequestEntry, as outcome: Outcome) {
    takeTurn(entry)
    settle(entry, as: outcome)
  }

  /// Its device token has had too many requests. It waits until then, which does not count as an
  /// attempt.
  package mutating func passed(_ entry: RequestEntry, until instant: Instant) {
    takeTurn(entry)
    var entry = entry
    retries.append(with(&entry) { $0.isPaced = true }, at: instant)
  }

  /// Until when notifications to a device token wait; nil if they do not.
  package mutating func pacedUntil(_ token: Int, now: Instant) -> Instant? {
    guard let until = paced[token] else { return nil }
    if until > now { return until }
    paced[token] = nil
    return nil
  }

  /// There is no notification before `end`.
  package mutating func passedPadding(to end: UInt64) {
    let start = map.sent
    map.append(to: end)
    map.mark(start, end)
  }

  private mutating func takeTurn(_ entry: RequestEntry) {
    if entry.position == map.sent {
      map.append(to: entry.end)
    } else if search?.takeTurn(entry.position) == true {
      return
    } else {
      precondition(retries.next?.position == entry.position, "it is not the notification's turn")
      retries.removeNext()
    }
  }

  // MARK: Outcomes

  /// The service has answered.
  ///
  /// - Parameters:
  ///   - verdict: a disputed token must have been decided: ``ProviderVerdict/pausesApp``, or the
  ///     same as an expired one.
  ///   - outcome: the outcome if no request follows.
  ///   - retryAfter: the service's own pause, in seconds.
  ///   - token: a hash of the device token, with ``ProviderVerdict/delaysToken``.
  package mutating func answered(
    _ tag: UInt64, _ verdict: ProviderVerdict, outcome: Outcome, retryAfter: UInt32?, token: Int? = nil, now: Instant
  ) {
    guard let entry = inFlight.remove(tag) else { return }
    connection.activeAt = now
    switch verdict {
    case .accepted, .rejected, .gone: settleAnswered(tag, entry, as: outcome)
    case .badToken:
      effects.badTokenCount += 1
      settleAnswered(tag, entry, as: outcome)
    case .pausesApp: refusedApp(tag, entry, outcome: outcome)
    case .needsOwnConnection where !connection.hasMadeProgress && backoff.failures >= Self.freshConnectionLimit:
      // These connections have used no other key, so the service does not accept this one.
      refusedApp(tag, entry, outcome: outcome)
    case .disputesToken, .expiredToken, .needsOwnConnection, .reconnects:
      connection.isFinishing = true
      refusedStreams(entry, limit: max(attempts, Self.reconnectLimit), outcome: outcome.afterLastAttempt, now: now)
    case .delaysToken:
      let delay = requests.tokenDelay
      let until = backOff(tag, entry, delay, outcome: outcome, retryAfter: retryAfter, isPaced: true, now: now)
      if let until, let token { pace(token, until: until, now: now) }
    case .keepsToken, .backsOff:
      _ = backOff(tag, entry, requests.backoff, outcome: outcome, retryAfter: retryAfter, now: now)
    case .unknown: endedWithoutAnswer(tag, entry, .meaninglessAnswer, now: now)
    }
  }

  /// The ring position of a request's notification; nil if the request has ended.
  package func position(of tag: UInt64) -> UInt64? { inFlight.position(of: tag) }

  /// How a stream ended without an answer.
  package enum StreamEnd: Sendable {
    /// The peer may have processed the request.
    case unknown
    /// The request was never sent, or is behind the last stream of a GOAWAY.
    case unprocessed
    /// The peer reset the stream with REFUSED_STREAM: it has not processed the request.
    case refused
  }

  /// A stream has ended without an answer.
  package mutating func ended(_ tag: UInt64, _ end: StreamEnd, now: Instant) {
    guard let entry = inFlight.remove(tag) else { return }
    switch end {
    case .unknown: endedWithoutAnswer(tag, entry, .streamReset, now: now)
    case .refused where !connection.isFinishing:
      refusedStreams(entry, limit: attempts, outcome: .rejected(.streamRefused), now: now)
    case .unprocessed, .refused: endedUnprocessed(entry, now: now)
    }
  }

  /// The app is about to stop and cancel everything, or is halted. Sending more would waste
  /// notifications.
  package mutating func pause() { isPaused = true }

  /// The app continues. The reason for the halt may be gone, so the next attempt is made at once.
  package mutating func resume() {
    isPaused = false
    backoff.succeeded()
    outage?.retryAt = nil
    if case .disconnected = phase { phase = .disconnected(retryAt: .start) }
  }

  /// Notifications that wait for a retry are settled at once if their campaign is cancelled.
  package mutating func cancelled(where isCancelled: (_ campaign: UInt32) -> Bool) {
    retries.hasten { isCancelled($0.campaign) }
  }

  /// The service refuses the credential or the topic, so the answer is not about the notification.
  /// It returns to the queue, and the app stops.
  private mutating func refusedApp(_ tag: UInt64, _ entry: RequestEntry, outcome: Outcome) {
    effects.pausedBy = outcome
    pause()
    if requests.plantedMistake == .credentialRejectsNotification { return settleAnswered(tag, entry, as: outcome) }
    retries.append(entry)
  }

  private mutating func settleAnswered(_ tag: UInt64, _ entry: RequestEntry, as outcome: Outcome) {
    isProven = true
    connection.trialCount = nil
    serviceIsWell(tag)
    settleFinally(entry, as: outcome)
    if requests.plantedMistake == .neighbourIsSettled { settleNeighbour(of: entry, as: outcome) }
  }

  /// No other answer will follow.
  mutating func settleFinally(_ entry: RequestEntry, as outcome: Outcome) {
    connection.hasMadeProgress = true
    effects.madeProgress = true
    effects.answerCount += 1
    settle(entry, as: outcome)
  }

  /// The peer says about this request that it was not processed. The notification is resent without
  /// doubt, until the peer has refused it `limit` times in a row while it answered others.
  private mutating func refusedStreams(_ entry: RequestEntry, limit: UInt16, outcome: Outcome, now: Instant) {
    var entry = entry
    entry.countRefusedStream(lastGoodSerial: lastGoodSerial)
    entry.turnedAwayMark = inFlight.nextSerial
    if entry.refusedStreams >= limit { return settleFinally(entry, as: entry.isInDoubt ? .unknown : outcome) }
    endedUnprocessed(entry, now: now)
    let cause: Cause = if case .rejected(.gaveUp(let refusal)) = outcome { .refusal(refusal) } else { .streamRefused }
    effects.trouble = Trouble(cause: cause, nextTryAt: nil)
  }

  /// The peer has not processed it. It is resent first and without doubt. After repeated refusals
  /// it is resent with growing pauses.
  private mutating func endedUnprocessed(_ entry: RequestEntry, now: Instant) {
    if requests.plantedMistake == .unprocessedIsForgotten { return settle(entry, as: .accepted(.confirmed)) }
    var entry = entry
    if entry.refusals == 0 {
      retries.append(with(&entry) { $0.refusals = 1 })
    } else {
      let delay = min(.seconds(5), Duration.milliseconds(50) * (1 << min(Int(entry.refusals) - 1, 10)))
      retries.append(with(&entry) { $0.refusals = min($0.refusals + 1, 100) }, at: now + jitter.apply(to: delay))
    }
    connection.refusedCount += 1
    if !connection.hasMadeProgress, connection.refusedCount >= Self.refusalLimit { connection.isFinishing = true }
  }

  /// The most requests in flight until the service has accepted the lane's credential, so that a
  /// bad key costs few refusals.
  private static let unprovenRequestLimit = 16
  /// After this many connections in a row that did not accept a key, and one more, another
  /// connection would not help.
  private static let freshConnectionLimit = 2
  /// A connection whose peer refuses this many streams and answers none is replaced.
  private static let refusalLimit = 100
  /// If this many answers in a row demand another connection, while others are accepted, the
  /// notification is the cause.
  private static let reconnectLimit: UInt16 = 50

  private mutating func pace(_ token: Int, until: Instant, now: Instant) {
    if paced.count >= requests.waitingLimit { paced = paced.filter { $0.value > now } }
    if paced.count < requests.waitingLimit { paced[token] = until }
  }

  /// It was sent, and its outcome is not known. The app's policy decides.
  ///
  /// - Parameter retryAt: when it is resent; nil: at once.
  mutating func endedUnknown(_ entry: RequestEntry, countsAsTry: Bool, retryAt: Instant? = nil) {
    switch policy.onUnknown {
    case .hold: settle(entry, as: .held)
    case .drop: settle(entry, as: .unknown)
    case .resend:
      var entry = entry
      entry.refusals = 0
      entry.refusedStreams = 0
      if countsAsTry { entry.tries += 1 }
      guard entry.tries < attempts else { return settle(entry, as: .unknown) }
      markInDoubt(&entry)
      if let retryAt { retries.append(entry, at: retryAt) } else { retries.append(entry) }
    }
  }

  mutating func markInDoubt(_ entry: inout RequestEntry) {
    entry.isInDoubt = true
    // Reported each time, because every possible copy is counted.
    if let last = effects.mayHaveArrived.last, last.upperBound == entry.position {
      effects.mayHaveArrived[effects.mayHaveArrived.count - 1] = last.lowerBound..<entry.end
    } else {
      effects.mayHaveArrived.append(entry.position..<entry.end)
    }
  }

  mutating func settle(_ entry: RequestEntry, as outcome: Outcome) {
    map.mark(entry.position, entry.end)
    let settlement = Settlement(
      from: entry.position, to: entry.end, count: 1, campaign: entry.campaign, outcome: outcome)
    if let last = effects.settlements.indices.last {
      if effects.settlements[last].join(settlement) { return }
      if settlement.from < effects.settlements[last].from { effects.isInOrder = false }
    }
    effects.settlements.append(settlement)
  }

  private mutating func settleNeighbour(of entry: RequestEntry, as outcome: Outcome) {
    guard let oldest = inFlight.oldest, let neighbour = inFlight.remove(oldest.tag) else { return }
    settle(neighbour, as: outcome)
  }

  func with(_ entry: inout RequestEntry, _ change: (inout RequestEntry) -> Void) -> RequestEntry {
    change(&entry)
    return entry
  }
}
