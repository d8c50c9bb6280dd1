internal import PushJournal
internal import PushWire
internal import Synchronization

extension EngineJournal {
  /// What the journal needs to begin a campaign.
  package struct Beginning: Sendable {
    package var app: String
    package var campaign: Campaign
    /// See ``JournalledCampaign/context``.
    package var context: [UInt8]

    package init(app: String, campaign: Campaign, context: [UInt8]) {
      (self.app, self.campaign, self.context) = (app, campaign, context)
    }
  }

  /// Begins campaigns that belong together. Returns their numbers, in the same order, when all of
  /// them are durable.
  package func begin(_ beginnings: [Beginning]) async throws(JournalProblem) -> [UInt64] {
    let group = state.withLock { $0.contents.takeNumber() }
    var numbers: [UInt64] = []
    var last: JournalPosition?
    do throws(JournalError) {
      while numbers.count < beginnings.count {
        let beginning = beginnings[numbers.count]
        let result: Result<(UInt64, JournalPosition), JournalError> = state.withLock { state in
          do throws(JournalError) {
            return .success(try begin(beginning, group, count: beginnings.count, &state))
          } catch { return .failure(error) }
        }
        if case .failure(.full) = result {
          await room()
          continue
        }
        let (number, position) = try result.get()
        numbers.append(number)
        last = position
      }
      if let last { try await journal.durable(through: last) }
      return numbers
    } catch { throw JournalProblem(error) }
  }

  private func begin(
    _ beginning: Beginning, _ group: UInt64, count: Int, _ state: inout State
  ) throws(JournalError) -> (UInt64, JournalPosition) {
    let payload = beginning.campaign.payload
    var known = state.contents.payloads.first { $0.value == payload }?.key
    if known == nil {
      let number = state.contents.takeNumber()
      try write(payload, as: number, &state)
      state.contents.define(payload: payload, as: number)
      known = number
    }
    var campaign = JournalledCampaign(
      number: state.contents.takeNumber(), group: group, groupCount: count, app: beginning.app, payload: known ?? 0,
      expiration: beginning.campaign.expiration, priority: beginning.campaign.priority, context: beginning.context)
    campaign.headers = beginning.campaign.headers
    // The journal keeps these two beside the headers.
    campaign.headers?.expiration = nil
    campaign.headers?.priority = nil
    campaign.seed = beginning.campaign.seed
    let position = try append(kind: .campaign, byteCount: campaign.byteCount, &state) {
      campaign.write(to: &$0)
    }
    state.contents.put(campaign)
    return (campaign.number, position)
  }

  /// The campaign has its final account.
  func end(_ number: UInt64) { record(.ended(campaign: number)) }

  /// Ends every open campaign: certainly unsent notifications are cancelled, those that may have
  /// arrived are unknown. Their accounts are complete after ``makeDurable()``.
  ///
  /// - Parameter listener: gets every notification that a campaign leaves without an outcome.
  package func abandonCampaigns(_ listener: (JournalledCampaign) -> (any OutcomeListener)? = { _ in nil }) {
    for campaign in campaigns where campaign.phase == .open { abandon(campaign, listener(campaign)) }
  }

  /// The same for one open campaign that this process has not resumed.
  ///
  /// - Parameter listener: gets every notification that the campaign leaves without an outcome, and
  ///   the final account.
  /// - Parameter rest: the account of those who were never read, which the listener has.
  package func abandonCampaign(_ number: UInt64, _ listener: (any OutcomeListener)? = nil, rest: Account = Account()) {
    if let campaign = campaign(number), campaign.phase == .open { abandon(campaign, listener, rest) }
  }

  private func abandon(
    _ campaign: JournalledCampaign, _ listener: (any OutcomeListener)?, _ rest: Account = Account()
  ) {
    for recovered in recoveredRuns(of: campaign.number) {
      let outcome = recovered.fate.outcomeUnsent
      if let listener { recovered.report(outcome, to: listener) }
      let run = JournalledRun(
        lane: recovered.lane, range: recovered.range, campaign: recovered.campaign, count: recovered.count)
      record(.resolved(run, outcome))
    }
    if let listener { listener.ended((self.campaign(campaign.number)?.account ?? campaign.account) + rest) }
    end(campaign.number)
  }

  /// Every campaign in the journal, by number. Ended ones stay until the next checkpoint after
  /// their whole group has ended.
  package var campaigns: [JournalledCampaign] {
    state.withLock { $0.contents.campaigns.values.sorted { $0.number < $1.number } }
  }

  func campaign(_ number: UInt64) -> JournalledCampaign? { state.withLock { $0.contents.campaigns[number] } }

  /// The campaign's payload, for recipients without their own.
  package func payload(of campaign: JournalledCampaign) -> [UInt8] {
    state.withLock { $0.contents.payloads[campaign.payload] ?? [] }
  }

  /// Earlier processes left notifications of the campaign whose tokens lie in its token file only:
  /// see ``readTokens(of:_:)``. Without, nobody can send them, and the listener gets them with
  /// empty tokens.
  package func lacksTokens(of campaign: UInt64) -> Bool {
    state.withLock { !$0.contents.contentsWithoutTokens(of: campaign).isEmpty }
  }

  /// Reads those tokens, before the campaign is resumed or abandoned. The file must be what it was
  /// when the campaign began.
  package func readTokens(of campaign: UInt64, _ read: TokenReading) throws(AudienceError) {
    while true {
      let places = state.withLock { Set($0.contents.contentsWithoutTokens(of: campaign)) }
      guard !places.isEmpty else { return }
      var contents: [EnqueueContent: EnqueueContent] = [:]
      for place in places { contents[place] = try place.withTokens(read) }
      // A checkpoint may have written some of them again meanwhile, in other pieces.
      state.withLock { $0.contents.replaceContents(of: campaign, contents) }
    }
  }

  /// The notifications that earlier processes left without an outcome.
  package func recoveredRuns(of campaign: UInt64) -> [RecoveredRun] {
    state.withLock { $0.contents.recoveredRuns(of: campaign) }
  }
}
