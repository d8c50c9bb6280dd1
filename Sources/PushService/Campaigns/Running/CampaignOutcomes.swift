internal import PushEngine
internal import PushStore
internal import PushWire

/// Gets the outcomes of a part of a campaign, or of a segment: the list of what was not accepted,
/// and the list of all outcomes of the app.
struct CampaignOutcomes: OutcomeListener {
  let list: any OutcomeListener
  let recorder: OutcomeRecorder
  let app: String
  let campaign: StoredUUID
  let seed: IdentifierSeed

  private func note(_ outcome: Outcome, _ entries: OutcomeEntries, isPassed: Bool) {
    recorder.listed(
      OutcomeGroup(outcome, entries, app: app, of: .campaign(campaign, seed), at: recorder.clock.now),
      isPassed: isPassed)
  }

  var wantsAccepted: Bool { true }
  var listsResumable: Bool { list.listsResumable }

  func accepted(_ entries: OutcomeEntries, _ confirmation: Confirmation) {
    note(.accepted(confirmation), entries, isPassed: false)
  }

  func notAccepted(line: UInt64, token: String, outcome: Outcome, goneSince: UInt64?, isDoubted: Bool) {
    list.notAccepted(line: line, token: token, outcome: outcome, goneSince: goneSince, isDoubted: isDoubted)
    let entries = OutcomeEntries(line: line, token: token, goneSince: goneSince, isDoubted: isDoubted)
    note(outcome, entries, isPassed: false)
  }

  func passedOver(line: UInt64, token: String, outcome: Outcome) {
    list.passedOver(line: line, token: token, outcome: outcome)
    let entries = OutcomeEntries(line: line, token: token, goneSince: nil, isDoubted: false)
    note(outcome, entries, isPassed: true)
  }

  func flush() { list.flush() }
}

extension OutcomeGroup.Origin {
  static func campaign(_ id: StoredUUID, _ seed: IdentifierSeed) -> OutcomeGroup.Origin {
    .campaign(id, seed: StoredUUID(high: seed.high, low: seed.low))
  }
}
