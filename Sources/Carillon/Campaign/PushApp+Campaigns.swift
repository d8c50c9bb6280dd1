internal import PushEngine
internal import PushTransport
internal import PushWire

extension PushApp {
  /// Sends a notification to every token of an array.
  ///
  /// Returns when the campaign has begun. It continues in the background.
  ///
  /// - Parameters:
  ///   - notification: what every recipient gets. It must not have placeholders.
  ///   - tokens: the recipients' device tokens.
  ///   - name: for people, and for ``UnfinishedCampaign/name``. Default: none.
  ///   - notAccepted: called with every notification that was not accepted, from any thread and
  ///     from several at once. It must return soon. Default nil.
  /// - Throws: ``CarillonError/Code-swift.struct/payload``,
  ///   ``CarillonError/Code-swift.struct/gateway``, ``CarillonError/Code-swift.struct/journal`` or
  ///   ``CarillonError/Code-swift.struct/cancelled``, as ``send(_:to:)->PushOutcome`` does.
  public func campaign(
    _ notification: PushNotification, to tokens: [DeviceToken], name: String = "",
    notAccepted: (@Sendable (UnacceptedNotification) -> Void)? = nil
  ) async throws(CarillonError) -> PushCampaign {
    let plan = try await planned(notification, name)
    if let column = plan.template?.columns.first {
      throw CarillonError(
        .payload, "The notification has the placeholder {{\(column)}}, but tokens alone bring no values.")
    }
    return try await begin(plan, .list(TokenList(tokens.map(\.wire)), count: tokens.count), notAccepted)
  }

  /// Sends a notification to every recipient that a sequence yields.
  ///
  /// Returns when the campaign has begun. It continues in the background. The sequence is read in a
  /// task of the deployment's, as fast as the gateway takes notifications. When the campaign or the
  /// deployment ends before, that task is cancelled: a sequence that ignores this delays the end.
  ///
  /// - Parameters:
  ///   - notification: what every recipient gets. `{{name}}` in it stands for the recipient's value
  ///     `name`.
  ///   - recipients: to whom. When it throws, what was read gets its outcome, and
  ///     ``PushCampaign/account()`` throws.
  ///   - name: for people, and for ``UnfinishedCampaign/name``. Default: none.
  ///   - notAccepted: called with every notification that was not accepted, from any thread and
  ///     from several at once. It must return soon. Default nil.
  /// - Throws: as ``campaign(_:to:name:notAccepted:)-(_,[DeviceToken],_,_)``.
  public func campaign<Recipients: AsyncSequence & Sendable>(
    _ notification: PushNotification, to recipients: Recipients, name: String = "",
    notAccepted: (@Sendable (UnacceptedNotification) -> Void)? = nil
  ) async throws(CarillonError) -> PushCampaign where Recipients.Element == Recipient {
    let plan = try await planned(notification, name)
    return try await begin(plan, plan.source(recipients, firstLine: 1), notAccepted)
  }

  /// Sends a notification to every line of a file.
  ///
  /// Returns when the campaign has begun. It continues in the background. The file has one token
  /// per line, or is CSV with a header that has a column `token`; over HTTP/2 the columns `apns-id`
  /// and `collapse-id` say headers of single notifications. Lines that cannot be used are rejected
  /// one by one.
  ///
  /// - Parameters:
  ///   - notification: what every recipient gets. `{{name}}` in it stands for the column `name`.
  ///   - path: of the file. It must not change before the campaign has ended. With a journal, the
  ///     file is read once more at the beginning: its SHA-256 proves later that it is the same.
  ///   - name: for people, and for ``UnfinishedCampaign/name``. Default: none.
  ///   - notAccepted: called with every notification that was not accepted, from any thread and
  ///     from several at once. It must return soon. Default nil.
  /// - Throws: ``CarillonError/Code-swift.struct/audience`` if the file cannot be opened or has no
  ///   token, and as ``campaign(_:to:name:notAccepted:)-(_,[DeviceToken],_,_)``.
  public func campaign(
    _ notification: PushNotification, toTokensIn path: String, name: String = "",
    notAccepted: (@Sendable (UnacceptedNotification) -> Void)? = nil
  ) async throws(CarillonError) -> PushCampaign {
    var plan = try await planned(notification, name)
    let source = try plan.source(file: path, from: nil)
    if core.journal != nil { plan.note.tokens = try FileFingerprint.ofRegularFile(path) }
    return try await begin(plan, source, notAccepted)
  }
}

/// A campaign that is about to begin, or to be resumed.
struct PlannedCampaign: Sendable {
  var runtime: AppRuntime
  var sent: Campaign
  /// Nil if every recipient gets the same payload.
  var template: PayloadTemplate?
  var note: CampaignNote
  /// The campaign's in the journal, when it is resumed.
  var number: UInt64?

  var isHTTP2: Bool { sent.headers != nil }
  /// Payloads in other languages, of a service's campaign.
  var variants: [String: [UInt8]] = [:]
  /// The most entries of a chunk.
  var entryLimit = AudienceChunk.defaultEntryLimit

  var payloadCapacity: Int { template == nil && variants.isEmpty ? 0 : AudienceChunk.defaultPayloadCapacity }

  var byteLimit: Int {
    isHTTP2 ? sent.requestHeaders.payloadLimit : runtime.entry.configuration.command.payloadLimitDefault
  }

  func source<Recipients: AsyncSequence & Sendable>(_ recipients: Recipients, firstLine: UInt64) -> CampaignSource
  where Recipients.Element == Recipient {
    let queue = RecipientQueue(template: template, byteLimit: byteLimit, isHTTP2: isHTTP2, firstLine: firstLine)
    return .queue(queue) { await queue.fill(from: recipients) }
  }

  func source(
    file path: String, from mark: AudienceMark?
  ) throws(CarillonError) -> CampaignSource {
    try source(path) { try AudienceFile(path: path, from: mark, readsHeaders: isHTTP2, renderer: renderer) }
  }

  /// A service's file. One that has lost lines is not begun with.
  func source(
    _ kept: KeptAudience, from mark: AudienceMark?, selection: (AudienceHeader) -> RowSelection?
  ) throws(CarillonError) -> CampaignSource {
    try source("the audience") {
      let file = try AudienceFile(
        kept, from: mark, readsHeaders: isHTTP2, renderer: renderer, selection: selection)
      try file.demandWhole()
      return file
    }
  }

  private func source(_ name: String, _ open: () throws -> AudienceFile) throws(CarillonError) -> CampaignSource {
    do {
      return .file(try open())
    } catch let error as PayloadTemplateError {
      throw CarillonError(.payload, "The notification with \(name): \(error).")
    } catch {
      throw CarillonError(describing: error)
    }
  }

  private func renderer(_ header: AudienceHeader) throws -> PayloadRenderer? {
    guard !variants.isEmpty else { return try template?.renderer(for: header, byteLimit: byteLimit) }
    func renderer(_ json: [UInt8]) throws -> PayloadRenderer {
      try PayloadTemplate(parsing: json).renderer(for: header, byteLimit: byteLimit)
    }
    let own = try template?.renderer(for: header, byteLimit: byteLimit) ?? renderer(sent.payload)
    return own.with(variants: try variants.mapValues(renderer), in: header)
  }
}

extension PushApp {
  /// A new campaign, checked.
  func planned(_ notification: PushNotification, _ name: String) async throws(CarillonError) -> PlannedCampaign {
    let runtime = try await core.runtime(of: entry)
    let json = notification.json
    let template: PayloadTemplate
    do throws(PayloadTemplateError) {
      template = try PayloadTemplate(parsing: json)
    } catch {
      throw CarillonError(.payload, "The notification: \(error).")
    }
    let hasPlaceholders = !template.columns.isEmpty
    let now = NIOLoop.wallClock
    let prepared = try PreparedNotification(
      notification, payload: template.sample, app: entry.configuration, kind: entry.credential.kind,
      now: now)
    var sent = prepared.campaign(
      payload: hasPlaceholders ? [] : json, expiration: notification.expiration?.unixSeconds(now: now))
    sent.headers?.collapseIdentifier = prepared.collapseID
    let note = CampaignNote(name: name, template: hasPlaceholders ? String(decoding: json, as: UTF8.self) : nil)
    return PlannedCampaign(
      runtime: runtime, sent: sent, template: hasPlaceholders ? template : nil, note: note, number: nil)
  }

  func begin(
    _ plan: PlannedCampaign, _ source: CampaignSource, _ notAccepted: (@Sendable (UnacceptedNotification) -> Void)?
  ) async throws(CarillonError) -> PushCampaign {
    let listener = CampaignListener(goneDevices: entry.goneDevices, notAccepted: notAccepted)
    return try await begin(plan, source, listener: listener)
  }

  func begin(
    _ plan: PlannedCampaign, _ source: CampaignSource, listener: any OutcomeListener
  ) async throws(CarillonError) -> PushCampaign {
    let runtime = plan.runtime
    var number = plan.number
    if number == nil { number = try await runtime.engine.begin(plan.sent, app: id, context: plan.note) }
    let isServed = plan.note.served != nil
    let run = try runtime.begin(plan.sent, number, settlesRest: isServed, listener: listener)
    let campaign = PushCampaign(
      run, app: id, name: plan.note.name, source: source,
      chunk: AudienceChunk(entryLimit: plan.entryLimit, payloadCapacity: plan.payloadCapacity),
      loop: runtime.engine.loop, isKept: isServed)
    guard runtime.engine.jobs.put({ await campaign.serve(runtime) }) else { throw DeploymentCore.hasEnded }
    return campaign
  }
}

/// Passes a campaign's outcomes to its callbacks.
private struct CampaignListener: OutcomeListener {
  let goneDevices: Multicast<PushApp.GoneDevice>
  let notAccepted: (@Sendable (UnacceptedNotification) -> Void)?

  func notAccepted(line: UInt64, token: String, outcome: PushWire.Outcome, goneSince: UInt64?) {
    let told = PushOutcome(outcome, goneSince: goneSince)
    if outcome.saysGone, let token = try? DeviceToken(hex: token) {
      goneDevices.send(PushApp.GoneDevice(token: token, since: told.rejection?.goneSince))
    }
    notAccepted?(UnacceptedNotification(position: Int(clamping: line), token: token, outcome: told))
  }
}
