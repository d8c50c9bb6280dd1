internal import PushEngine
internal import PushTransport
internal import PushWire

/// A campaign that an earlier process began and did not end, as the journal knows it.
///
/// ```swift
/// for unfinished in deployment.unfinishedCampaigns {
///   let campaign = try await unfinished.resume(to: tokens)
///   print(try await campaign.result())
/// }
/// ```
///
/// Resume it with the same recipients: those that were read before are passed over. What was read
/// and has certainly not been sent is sent first; what may have arrived goes by the app's
/// ``AppConfiguration/onUnknown``. The account covers all processes together.
public struct UnfinishedCampaign: Sendable, Identifiable {
  /// Its number in the journal.
  public let id: UInt64
  /// The ``AppConfiguration/id`` of its app.
  public let app: String
  /// The name that it was given.
  public let name: String
  /// These are single sends whose callers have gone with their process.
  public let isSingleSends: Bool
  /// What has become of its notifications so far.
  public let account: CampaignAccount
  /// The number of recipients that were read, from the first one on; of a token file, lines.
  public let readCount: Int
  /// Notifications that were read and have certainly not been sent.
  public let unsentCount: Int
  /// Notifications that may have arrived or not.
  public let unknownCount: Int

  let campaign: JournalledCampaign
  let context: CampaignContext
  private let core: DeploymentCore

  init(_ state: JournalReport.CampaignState, core: DeploymentCore) {
    campaign = state.campaign
    context = CampaignContext(reading: state.campaign.context)
    self.core = core
    id = state.campaign.number
    app = state.campaign.app
    name = context.name
    isSingleSends = context.isSingleSends
    account = CampaignAccount(state.campaign.account)
    readCount = Int(clamping: state.campaign.readLine)
    unsentCount = state.unsent
    unknownCount = state.unknown
  }

  /// Sends what was read, and reads nothing more.
  ///
  /// - Parameter notAccepted: as in
  ///   ``PushApp/startCampaign(_:to:name:notAccepted:)-(_,[DeviceToken],_,_)``.
  /// - Throws: ``CarillonError/ErrorCode/configuration`` if the deployment has no such app,
  ///   ``CarillonError/ErrorCode/journalContent`` if the app's transport is another one
  ///   now, or the campaign was resumed or abandoned before; and as that method.
  public func resume(
    notAccepted: (@Sendable (UnacceptedNotification) -> Void)? = nil
  ) async throws(CarillonError) -> PushCampaign {
    try await resume(notAccepted) { _ throws(CarillonError) in .nobody }
  }

  /// Resumes it with an array of tokens.
  ///
  /// - Parameters:
  ///   - tokens: the same as before, all of them.
  ///   - notAccepted: called for each notification that is not accepted.
  /// - Throws: as ``resume(notAccepted:)``.
  public func resume(
    to tokens: [DeviceToken], notAccepted: (@Sendable (UnacceptedNotification) -> Void)? = nil
  ) async throws(CarillonError) -> PushCampaign {
    let list = TokenList(tokens.map(\.wire), from: AudienceMark(offset: campaign.readLine, line: campaign.readLine + 1))
    return try await resume(notAccepted) { _ throws(CarillonError) in .list(list, count: tokens.count) }
  }

  /// Resumes it with a sequence of recipients.
  ///
  /// - Parameters:
  ///   - recipients: those behind the first ``readCount``, in the same order as before.
  ///   - notAccepted: called for each notification that is not accepted.
  /// - Throws: as ``resume(notAccepted:)``.
  public func resume<Recipients: AsyncSequence & Sendable>(
    toRemaining recipients: Recipients, notAccepted: (@Sendable (UnacceptedNotification) -> Void)? = nil
  ) async throws(CarillonError) -> PushCampaign where Recipients.Element == Recipient {
    let firstLine = campaign.readLine + 1
    return try await resume(notAccepted) { plan throws(CarillonError) in
      plan.source(recipients, firstLine: firstLine)
    }
  }

  /// Resumes it with a file.
  ///
  /// - Parameters:
  ///   - path: of the same file as before, which must not have changed. Its size and content
  ///     are compared, unless it was no regular file.
  ///   - notAccepted: called for each notification that is not accepted.
  /// - Throws: as ``resume(notAccepted:)``, ``CarillonError/ErrorCode/journalContent`` if
  ///   the file has changed since the campaign began, and
  ///   ``CarillonError/ErrorCode/audience`` if it cannot be read. The campaign stays
  ///   unfinished then.
  public func resume(
    toTokensIn path: String, notAccepted: (@Sendable (UnacceptedNotification) -> Void)? = nil
  ) async throws(CarillonError) -> PushCampaign {
    let mark = campaign.mark.offset == 0 ? nil : campaign.mark
    return try await resume(notAccepted) { plan throws(CarillonError) in
      if let difference = try context.tokens?.difference(of: path) { throw CarillonError(.journalContent, difference) }
      let source = try plan.source(file: path, from: mark)
      if case .file(let file) = source {
        try describingErrors { try core.journal?.readTokens(of: id, file.tokens) }
      }
      return source
    }
  }

  /// Gives it up: what was not sent counts as cancelled, what may have arrived as unknown.
  ///
  /// - Returns: the final account.
  /// - Throws: ``CarillonError/ErrorCode/journalContent`` if it was resumed or abandoned
  ///   before, and ``CarillonError/ErrorCode/journal`` if the journal cannot be written.
  @discardableResult
  public func abandon() async throws(CarillonError) -> CampaignAccount {
    let journal = try take()
    journal.abandonCampaign(id)
    try await describingErrors { try await journal.makeDurable() }
    return CampaignAccount(journal.campaigns.first { $0.number == id }?.account ?? campaign.account)
  }

  /// Other callers can no longer resume or abandon it.
  func take() throws(CarillonError) -> EngineJournal {
    guard let journal = core.journal, core.take(unfinished: id) else {
      throw CarillonError(.journalContent, "The campaign \(id) was resumed or abandoned before.")
    }
    return journal
  }

  private func resume(
    _ notAccepted: (@Sendable (UnacceptedNotification) -> Void)?,
    _ source: (PlannedCampaign) throws(CarillonError) -> CampaignSource
  ) async throws(CarillonError) -> PushCampaign {
    let entry = try core.entry(app)
    let plan = try plan(through: entry)
    let opened = try source(plan)
    guard core.journal?.lacksTokens(of: id) != true else {
      throw CarillonError(
        .journalContent,
        "The campaign \(id) of the app \"\(app)\" was begun by \"carillon send\", and some of its tokens lie in its "
          + "token file only: resume it with resume(toTokensIn:).")
    }
    let runtime = try await core.runtime(of: entry)
    _ = try take()
    return try await PushApp(entry, core).begin(plan, opened, notAccepted, on: runtime)
  }

  /// The campaign as it began.
  func plan(through entry: AppEntry) throws(CarillonError) -> PlannedCampaign {
    guard (campaign.headers != nil) == entry.configuration.transport.isHTTP2 else {
      throw CarillonError(.journalContent, "The campaign \(id) of the app \"\(app)\" began with another transport.")
    }
    let template: PayloadTemplate?
    do throws(PayloadTemplateError) {
      template = try context.template.map { text throws(PayloadTemplateError) in
        try PayloadTemplate(parsing: Array(text.utf8))
      }
    } catch { throw CarillonError(.journalContent, "The campaign \(id): \(error).") }
    var plan = PlannedCampaign(
      resuming: campaign, payload: core.journal?.payload(of: campaign) ?? [], template: template, through: entry)
    plan.context = context
    return plan
  }
}

extension Deployment {
  /// What earlier processes began and did not end, from the oldest on. Empty without a journal.
  ///
  /// Resume or abandon each: an unfinished campaign stays in the journal until then.
  public var unfinishedCampaigns: [UnfinishedCampaign] {
    core.unfinished.map { UnfinishedCampaign($0, core: core) }
  }
}
