// Connections that close silently, and the search for the notification that causes it.

extension LaneMachine {
  /// The connection closed silently, so the outcomes in the window are not known. The app's policy
  /// decides.
  mutating func closedSilently(walk: any RecordWalk) {
    if poisonSearch?.suspect?.controlSucceeded == false, window.isEmpty { return controlFailed() }
    if poisonSearch?.isProbeOnTrial == true, window.isEmpty, connection.probe != nil {
      probesWork = false
      poisonSearch = nil
      return
    }
    guard window.sentCount > 0 else { return rewindDiscarded() }
    switch policy.onUnknown {
    case .hold: settleAll(as: .held, walk: walk)
    case .drop: settleAll(as: .unknown, walk: walk)
    case .resend: failedInFlight(walk: walk)
    }
  }

  private mutating func failedInFlight(walk: any RecordWalk) {
    connection.failedInSearch = poisonSearch != nil
    let isAlone = window.sentCount == 1
    if isAlone, let suspect = poisonSearch?.suspect, suspect.controlSucceeded { return closedAfterControl(walk: walk) }
    if policy.plantedMistake != .duplicatesAreNotCounted { effects.mayHaveArrived = window.sentRanges }
    var search = poisonSearch ?? PoisonSearch()
    search.failed(through: window.sent, count: window.sentCount)
    search.isProbeOnTrial = !isAlone && connection.probe != nil && !probesAreProven
    if isAlone {
      let isTried = policy.plantedMistake == .outageIsVerdict
      search.suspect = PoisonSearch.Suspect(end: window.frontEnd ?? window.sent, failures: 1, controlSucceeded: isTried)
    }
    poisonSearch = search
    rewind()
  }

  /// The suspect's connection has closed although the control before it succeeded. An outage may
  /// have begun between the two, so another control must succeed before the suspect is rejected.
  private mutating func closedAfterControl(walk: any RecordWalk) {
    if policy.plantedMistake == .outageIsVerdict { return settleAll(as: .rejected(.closedWithoutReason), walk: walk) }
    guard let end = window.frontEnd, let campaign = window.frontCampaign else { return }
    poisonSearch?.failed(through: end, count: 1)
    poisonSearch?.suspect = PoisonSearch.Suspect(
      end: end, failures: 1, controlSucceeded: false, rejectionCampaign: campaign)
    rewind()
  }

  /// A connection that carried nothing, or only a probe, has stayed open.
  mutating func controlSucceeded() {
    guard let suspect = poisonSearch?.suspect else { return }
    poisonSearch?.suspect?.controlSucceeded = true
    guard let campaign = suspect.rejectionCampaign, window.isEmpty else { return }
    // This control also counts as the first one of the next suspect.
    poisonSearch?.hasSucceeded = true
    window.settleUnsent(
      to: suspect.end, campaign: campaign, as: .rejected(.closedWithoutReason), into: &effects.settlements)
    searchFollows()
  }

  /// The control after the suspect has failed, or could not connect, so the suspect's closed
  /// connection proves nothing. The suspect is sent again when the gateway works again.
  mutating func cancelRejection() {
    guard let suspect = poisonSearch?.suspect, suspect.rejectionCampaign != nil else { return }
    poisonSearch?.suspect?.rejectionCampaign = nil
    if policy.plantedMistake != .duplicatesAreNotCounted { effects.mayHaveArrived.append(window.settled..<suspect.end) }
  }

  /// Even a connection without a notification was closed silently. This is an outage, and no
  /// notification is the cause.
  private mutating func controlFailed() {
    cancelRejection()
    guard var suspect = poisonSearch?.suspect else { return }
    // This gateway may close because of the probe, so the next control carries nothing at all.
    if connection.probe != nil { probesWork = false }
    suspect.failures += 1
    poisonSearch?.suspect = suspect
    if suspect.failures >= policy.attempts { effects.isUnresponsive = true }
  }

  /// The step that the search demands first on a connection; nil if none.
  mutating func stepOfSearch(now: Instant, walk: any RecordWalk) -> Step? {
    guard var search = poisonSearch else { return nil }
    search.prepareStage(from: window.settled, hasProbes: probesWork, walk: walk)
    poisonSearch = search
    guard let suspect = search.suspect, !suspect.controlSucceeded, window.isEmpty else { return nil }
    return stepOfControl(now: now)
  }

  /// A connection that carries only a probe, to find out whether the gateway works at all.
  mutating func stepOfControl(now: Instant) -> Step {
    if probesWork { return .probe(identifier: nextProbeIdentifier) }
    let deadline = connection.openedAt + policy.quiet
    guard deadline <= now else { return .wait(until: deadline) }
    controlSucceeded()
    return .wait(until: now)
  }

  /// The search continues from *settled*.
  mutating func searchFollows() {
    poisonSearch?.settled(through: window.settled)
    if poisonSearch?.isOver == true { poisonSearch = nil }
  }
}
