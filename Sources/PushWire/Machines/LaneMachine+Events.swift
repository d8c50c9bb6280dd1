// Events of the lane, and what follows for the notifications in the window (BinaryProtocol.md,
// "What the sender concludes").

extension LaneMachine {
  /// Other lanes of the app have had refusals. A lane that has had none takes over their
  /// statistics, and so starts as slowly as they do.
  package mutating func learned(_ statistics: RefusalStatistics) {
    if !refusalStatistics.hasRefusals { refusalStatistics = statistics }
  }

  /// The credential has been replaced: an open connection is confirmed and left.
  package mutating func renewConnection() {
    if isOpen { connection.isFinishing = true }
  }

  package mutating func dialled() {
    phase = .dialling
    connection = Connection()
  }

  package mutating func opened(now: Instant) {
    phase = .open
    hasBeenOpen = true
    connection = Connection(openedAt: now, progressAt: now, drainedAt: now, lastActivity: now)
    connection.slowStart = refusalStatistics.slowStart
    poisonSearch?.connectionOpened()
    window.connectionOpened()
  }

  /// `count` notifications of one campaign have had their turn, the last one from `lastStart`.
  package mutating func packed(
    to end: UInt64, lastStart: UInt64, count: Int, campaign: UInt32, fate: ResendWindow.Fate, now: Instant
  ) {
    // If the peer is behind, then from now on, and not since it last had something to acknowledge.
    if window.isDelivered { connection.progressAt = now }
    window.append(to: end, lastStart: lastStart, count: count, campaign: campaign, fate: fate, now: now)
    if fate == .sent {
      connection.lastActivity = now
      connection.sentCount += count
    } else {
      window.settleUnsentFront(into: &effects.settlements)
      // A suspect that is cancelled or expired is no longer searched for.
      searchFollows()
    }
  }

  package mutating func probed(now: Instant) {
    connection.probe = Probe(identifier: nextProbeIdentifier, sentAt: now)
    probeCount &+= 1
    connection.lastActivity = now
  }

  /// The packed bytes have been passed to the link. `streamEnd` is the length of its stream.
  package mutating func handedOver(through streamEnd: UInt64) { window.handedOver(through: streamEnd) }

  /// An error response has arrived. The lane closes the link after it.
  package mutating func responded(_ response: ErrorResponse, now: Instant, walk: any RecordWalk) {
    connection.hasHeard = true
    guard isConversing else { return }
    phase = .leaving
    quietUntil = nil
    if let probe = connection.probe, response.identifier == probe.identifier, response.status != .shutdown {
      probesAreProven = true
      // The response may have come late, after probes had been given up.
      probesWork = true
      return probeAnswered(.confirmed, walk: walk)
    }
    if connection.probe != nil, response.identifier == 0, response.status == .missingDeviceToken {
      // None of our notifications lacks a token, so this is the probe's answer without its
      // identifier, as the sandbox once gave. It proves as much as a quiet period, and no more
      // probes are sent.
      probesWork = false
      return probeAnswered(.quiet, walk: walk)
    }
    switch response.status {
    case .shutdown where policy.plantedMistake == .shutdownIsRefusal:
      respondedWithRefusal(response, now: now, walk: walk)
    case .shutdown, .noErrors: respondedWithLastGood(response.identifier, walk: walk)
    default: respondedWithRefusal(response, now: now, walk: walk)
    }
  }

  private mutating func probeAnswered(_ confirmation: Confirmation, walk: any RecordWalk) {
    poisonSearch?.isProbeOnTrial = false
    controlSucceeded()
    settleAll(as: .accepted(confirmation), walk: walk)
    madeProgress()
  }

  /// Status 10 names the last notification that was sent successfully. It is not a failure.
  private mutating func respondedWithLastGood(_ identifier: UInt32, walk: any RecordWalk) {
    if let probe = connection.probe, identifier == probe.identifier {
      controlSucceeded()
      settleAll(as: .accepted(.confirmed), walk: walk)
    } else if let named = notification(named: identifier, walk: walk) {
      settle(through: named.end, as: .accepted(.confirmed), walk: walk)
    } else if policy.hasIdentifiers, let last = window.lastSettledStart, identifier == ResendWindow.identifier(at: last)
    {
      // The last notification settled before the window: nothing in the window was accepted.
    } else {
      return closedSilently(walk: walk)
    }
    rewindDiscarded()
    // A gateway that shuts down repeatedly without accepting anything causes back-off.
    if connection.settledCount > 0 { madeProgress() }
  }

  private mutating func respondedWithRefusal(_ response: ErrorResponse, now: Instant, walk: any RecordWalk) {
    guard let named = notification(named: response.identifier, walk: walk) else { return closedSilently(walk: walk) }
    connection.endedInRefusal = true
    if let sentAt = window.sentAt(named.position) { refusalStatistics.answered(after: now.since(sentAt)) }
    settle(through: named.position, as: .accepted(.confirmed), walk: walk)
    settle(through: named.end, as: .rejected(.status(response.status)), walk: walk)
    if policy.plantedMistake == .followersAreForgotten { settleAll(as: .accepted(.confirmed), walk: walk) }
    rewindDiscarded()
    madeProgress()
  }

  /// Frames without identifiers cannot be named, so any number in a response names no notification.
  private func notification(named identifier: UInt32, walk: any RecordWalk) -> (position: UInt64, end: UInt64)? {
    policy.hasIdentifiers ? window.notification(named: identifier, walk: walk) : nil
  }

  /// Bytes arrived that are not an error response: treated as a silent close.
  package mutating func respondedMalformed(walk: any RecordWalk) {
    connection.hasHeard = true
    guard isConversing else { return }
    phase = .leaving
    quietUntil = nil
    closedSilently(walk: walk)
  }

  /// The first bytes of an error response have arrived.
  package mutating func heardPart() { connection.hasHeard = true }

  /// Whether an answer still counts: the connection is open, or is being closed after an unanswered
  /// probe.
  private var isConversing: Bool { isOpen || quietUntil != nil }

  /// Whether this connection has shown that the gateway accepts the certificate: something was
  /// settled on it, or received. An alert about the certificate then proves nothing about what was
  /// sent.
  package var hasWorked: Bool {
    policy.plantedMistake != .lateAlertIsRefusal && (connection.settledCount > 0 || connection.hasHeard)
  }

  /// Whether a refusal of the certificate proves that nothing was read.
  ///
  /// With TLS 1.3 the refusal arrives one round trip after the handshake looked complete. A later
  /// alert may follow frames that were read.
  private func provesNothingWasRead(now: Instant) -> Bool {
    policy.plantedMistake == .lateAlertIsRefusal || !hasWorked && now < connection.openedAt + Self.moment
  }

  /// The link has closed, or could not be opened.
  package mutating func closed(_ closure: LaneClosure, now: Instant, walk: any RecordWalk) {
    let wasOpen = isOpen
    if case .dialling = phase { cancelRejection() }
    if let end = quietUntil {
      settle(through: end, as: .accepted(.quiet), walk: walk)
      quietUntil = nil
      madeProgress()
    }
    if wasOpen {
      switch closure {
      case .nothingWasRead where provesNothingWasRead(now: now): rewindDiscarded()
      case .nothingWasRead, .silent, .byUs: closedSilently(walk: walk)
      }
    }
    refusalStatistics.connectionEnded(settledCount: connection.settledCount, inRefusal: connection.endedInRefusal)
    var delay = Duration.zero
    if connection.hasMadeProgress {
      backoff.succeeded()
      searchBackoff.succeeded()
    } else if connection.failedInSearch {
      delay = searchBackoff.failed()
    } else if !connection.endedIdle {
      delay = backoff.failed()
    }
    phase = .disconnected(retryAt: now + delay)
  }

  /// The app was halted and continues. The reason may be gone, so the next attempt is made at once.
  package mutating func resume() {
    backoff.succeeded()
    if case .disconnected = phase { phase = .disconnected(retryAt: .start) }
  }

  // MARK: Settling

  mutating func settleQuiet(now: Instant, walk: any RecordWalk) {
    guard let end = window.quietEnd(now: now, quiet: policy.quiet, drainedAt: connection.drainedAt) else { return }
    settle(through: end, as: .accepted(.quiet), walk: walk)
    madeProgress()
  }

  mutating func settleAll(as outcome: Outcome, walk: any RecordWalk) {
    settle(through: window.sent, as: outcome, walk: walk)
  }

  private mutating func settle(through position: UInt64, as outcome: Outcome, walk: any RecordWalk) {
    guard position > window.settled else { return }
    let before = window.sentCount
    window.settle(through: position, as: outcome, walk: walk, into: &effects.settlements)
    window.settleUnsentFront(into: &effects.settlements)
    connection.settledCount += before - window.sentCount
    searchFollows()
  }

  mutating func rewind() {
    guard !window.isEmpty else { return }
    window.rewind()
    effects.hasRewound = true
  }

  /// Sets *sent* back after an answer that proves that the rest of the window was not accepted.
  mutating func rewindDiscarded() {
    guard !window.isEmpty else { return }
    effects.discardedFrom = window.settled
    rewind()
  }

  private mutating func madeProgress() {
    connection.hasMadeProgress = true
    poisonSearch?.hasSucceeded = true
    effects.madeProgress = true
  }
}
