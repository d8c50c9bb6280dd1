// Connections that end without a word, and the search for what they die of.

extension LaneMachine {
  /// The connection ended and nobody said what became of the window: the app's policy decides.
  mutating func endedWithoutAWord(walk: any RecordWalk) {
    if isolation?.suspect?.controlHasLived == false, window.isEmpty { return controlDied() }
    if isolation?.isProbeOnTrial == true, window.isEmpty, connection.probe != nil {
      probesWork = false
      isolation = nil
      return
    }
    guard window.sentCount > 0 else { return rewindDiscarded() }
    switch policy.onUnknown {
    case .hold: settleAll(as: .held, walk: walk)
    case .drop: settleAll(as: .unknown, walk: walk)
    case .resend: diedInFlight(walk: walk)
    }
  }

  private mutating func diedInFlight(walk: any RecordWalk) {
    connection.diedInSearch = isolation != nil
    let isAlone = window.sentCount == 1
    if isAlone, let suspect = isolation?.suspect, suspect.controlHasLived {
      // What else was in the window was not sent.
      isolation?.hasLived = false
      return settleAll(as: .rejected(.closedWithoutReason), walk: walk)
    }
    if policy.plantedMistake != .duplicatesAreNotCounted { effects.mayHaveArrived = window.sentRanges }
    var search = isolation ?? Isolation()
    search.died(through: window.sent, count: window.sentCount)
    search.isProbeOnTrial = !isAlone && connection.probe != nil && !probesAreProven
    if isAlone {
      let isTried = policy.plantedMistake == .outageIsVerdict
      search.suspect = Isolation.Suspect(end: window.frontEnd ?? window.sent, deaths: 1, controlHasLived: isTried)
    }
    isolation = search
    rewind()
  }

  /// Even a connection that carried nothing was closed without a word: this is an outage, and no
  /// notification is to blame.
  private mutating func controlDied() {
    guard var suspect = isolation?.suspect else { return }
    // Perhaps it is the probe that this gateway answers by closing: the next control carries
    // nothing at all.
    if connection.probe != nil { probesWork = false }
    suspect.deaths += 1
    isolation?.suspect = suspect
    if suspect.deaths >= policy.attempts { effects.isUnresponsive = true }
  }

  /// What to do first on a connection because of the search, if anything.
  mutating func stepOfSearch(now: Instant, walk: any RecordWalk) -> Step? {
    guard var search = isolation else { return nil }
    search.prepareStage(from: window.settled, hasProbes: probesWork, walk: walk)
    isolation = search
    guard let suspect = search.suspect, !suspect.controlHasLived, window.isEmpty else { return nil }
    return stepOfControl(now: now)
  }

  /// The connection that carries nothing but a probe, to see whether the gateway is well at all.
  mutating func stepOfControl(now: Instant) -> Step {
    if probesWork { return .probe(identifier: nextProbeIdentifier) }
    let deadline = connection.openedAt + policy.quiet
    guard deadline <= now else { return .wait(until: deadline) }
    isolation?.suspect?.controlHasLived = true
    return .wait(until: now)
  }

  /// The search follows *settled*.
  mutating func searchFollows() {
    isolation?.settled(through: window.settled)
    if isolation?.isOver == true { isolation = nil }
  }
}
