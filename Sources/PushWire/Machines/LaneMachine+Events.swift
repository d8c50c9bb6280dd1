// What the lane tells the machine, and what follows for the notifications in the window (BinaryProtocol.md, "What the sender concludes").

extension LaneMachine {
  /// Other lanes of the app have seen refusals: a lane that has seen none begins as carefully as they go on.
  package mutating func learned(_ statistics: RefusalStatistics) {
    if !refusalStatistics.hasRefusals { refusalStatistics = statistics }
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

  /// `count` notifications of one campaign, the last of them at `lastStart`, have had their turn.
  package mutating func packed(to end: UInt64, lastStart: UInt64, count: Int, campaign: UInt32, fate: ResendWindow.Fate, now: Instant) {
    // The peer is behind from now on, if it is; not since it last had something to acknowledge.
    if window.isDelivered { connection.progressAt = now }
    window.append(to: end, lastStart: lastStart, count: count, campaign: campaign, fate: fate, now: now)
    if fate == .sent {
      connection.lastActivity = now
      connection.sentCount += count
    } else {
      window.settleUnsentFront(into: &effects.settlements)
      // Cancelled or expired, the suspect takes the suspicion with it.
      searchFollows()
    }
  }

  package mutating func probed(now: Instant) {
    connection.probe = Probe(identifier: nextProbeIdentifier, sentAt: now)
    probeCount &+= 1
    connection.lastActivity = now
  }

  /// What was packed has been handed to the link, whose stream is now so long.
  package mutating func handedOver(through streamEnd: UInt64) {
    window.handedOver(through: streamEnd)
  }

  /// An error response has come. The lane closes the link after it.
  package mutating func responded(_ response: ErrorResponse, now: Instant, walk: any RecordWalk) {
    connection.hasHeard = true
    guard isConversing else { return }
    phase = .leaving
    quietUntil = nil
    if let probe = connection.probe, response.identifier == probe.identifier, response.status != .shutdown {
      probesAreProven = true
      // Perhaps it came late, after they had been given up.
      probesWork = true
      poisonSearch?.isProbeOnTrial = false
      controlLived()
      settleAll(as: .accepted(.confirmed), walk: walk)
      madeProgress()
      return
    }
    if connection.probe != nil, response.identifier == 0, response.status == .missingDeviceToken {
      // None of our notifications lacks a token, so this is the probe's answer without its identifier, as the sandbox once gave. It is
      // believed as a quiet period is, and no more probes are sent.
      probesWork = false
      poisonSearch?.isProbeOnTrial = false
      controlLived()
      settleAll(as: .accepted(.quiet), walk: walk)
      madeProgress()
      return
    }
    switch response.status {
    case .shutdown where policy.plantedMistake == .shutdownIsRefusal: respondedWithRefusal(response, now: now, walk: walk)
    case .shutdown, .noErrors: respondedWithLastGood(response.identifier, walk: walk)
    default: respondedWithRefusal(response, now: now, walk: walk)
    }
  }

  /// Status 10 names the last notification that was sent successfully: not a failure.
  private mutating func respondedWithLastGood(_ identifier: UInt32, walk: any RecordWalk) {
    if let probe = connection.probe, identifier == probe.identifier {
      controlLived()
      settleAll(as: .accepted(.confirmed), walk: walk)
    } else if let named = notification(named: identifier, walk: walk) {
      settle(through: named.end, as: .accepted(.confirmed), walk: walk)
    } else if policy.hasIdentifiers, let last = window.lastSettledStart, identifier == ResendWindow.identifier(at: last) {
      // The last one settled before the window: nothing in the window was taken.
    } else {
      return closedSilently(walk: walk)
    }
    rewindDiscarded()
    // A gateway that shuts down again and again without taking anything is met with back-off.
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

  /// Frames without identifiers cannot be named: whatever number comes back, it is not one of ours.
  private func notification(named identifier: UInt32, walk: any RecordWalk) -> (position: UInt64, end: UInt64)? {
    policy.hasIdentifiers ? window.notification(named: identifier, walk: walk) : nil
  }

  /// Bytes came that are no error response: treated as a silent close.
  package mutating func respondedMalformed(walk: any RecordWalk) {
    connection.hasHeard = true
    guard isConversing else { return }
    phase = .leaving
    quietUntil = nil
    closedSilently(walk: walk)
  }

  /// The first bytes of an error response have come.
  package mutating func heardPart() {
    connection.hasHeard = true
  }

  /// An answer still counts: the connection is open, or we are leaving it after an unanswered probe.
  private var isConversing: Bool { isOpen || quietUntil != nil }

  /// Whether this connection has shown that the gateway takes our certificate: something was
  /// settled on it, or heard. An alert about the certificate then says nothing about what was sent.
  package var hasWorked: Bool {
    policy.plantedMistake != .lateAlertIsRefusal && (connection.settledCount > 0 || connection.hasHeard)
  }

  /// Whether a refusal of the certificate proves that nothing was read.
  ///
  /// With TLS 1.3 the refusal comes after the handshake looked complete, one round trip later. An
  /// alert that comes later may follow frames that were read.
  private func provesNothingWasRead(now: Instant) -> Bool {
    policy.plantedMistake == .lateAlertIsRefusal || !hasWorked && now < connection.openedAt + Self.moment
  }

  /// The link has closed, or could not be opened.
  package mutating func closed(_ closure: LaneClosure, now: Instant, walk: any RecordWalk) {
    let wasOpen = isOpen
    if case .dialling = phase { acquit() }
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

  /// Sets *sent* back after an answer that proves that the rest of the window was not taken.
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
