package import PushEngine
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
  /// - Throws: ``CarillonError/ErrorCode/payload``,
  ///   ``CarillonError/ErrorCode/gateway``, ``CarillonError/ErrorCode/journal`` or
  ///   ``CarillonError/ErrorCode/cancelled``, as ``send(_:to:)->PushOutcome`` does.
  public func startCampaign(
    _ notification: PushNotification, to tokens: [DeviceToken], name: String = "",
    notAccepted: (@Sendable (UnacceptedNotification) -> Void)? = nil
  ) async throws(CarillonError) -> PushCampaign {
    let plan = try planned(notification, name)
    if let column = plan.template?.columns.first {
      throw CarillonError(
        .payload, "The notification has the placeholder {{\(column)}}, but tokens alone bring no values.")
    }
    return try await begin(plan, .list(TokenList(tokens.map(\.wire)), count: tokens.count), notAccepted)
  }

  /// Sends a notification to every recipient of an array.
  ///
  /// - Parameters:
  ///   - notification: what every recipient gets. `{{name}}` in it stands for the recipient's value
  ///     `name`.
  ///   - recipients: to whom.
  ///   - name: for people, and for ``UnfinishedCampaign/name``. Default: none.
  ///   - notAccepted: called with every notification that was not accepted, from any thread and
  ///     from several at once. It must return soon. Default nil.
  /// - Throws: as ``startCampaign(_:to:name:notAccepted:)-(_,[DeviceToken],_,_)``.
  public func startCampaign(
    _ notification: PushNotification, to recipients: [Recipient], name: String = "",
    notAccepted: (@Sendable (UnacceptedNotification) -> Void)? = nil
  ) async throws(CarillonError) -> PushCampaign {
    try await startCampaign(
      notification, to: RecipientArray(iterator: recipients.makeIterator()), name: name, notAccepted: notAccepted)
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
  ///     ``PushCampaign/result()`` throws.
  ///   - name: for people, and for ``UnfinishedCampaign/name``. Default: none.
  ///   - notAccepted: called with every notification that was not accepted, from any thread and
  ///     from several at once. It must return soon. Default nil.
  /// - Throws: as ``startCampaign(_:to:name:notAccepted:)-(_,[DeviceToken],_,_)``.
  public func startCampaign<Recipients: AsyncSequence & Sendable>(
    _ notification: PushNotification, to recipients: Recipients, name: String = "",
    notAccepted: (@Sendable (UnacceptedNotification) -> Void)? = nil
  ) async throws(CarillonError) -> PushCampaign where Recipients.Element == Recipient {
    let plan = try planned(notification, name)
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
  ///     file is read once more at the beginning, to prove later that it is the same.
  ///   - name: for people, and for ``UnfinishedCampaign/name``. Default: none.
  ///   - notAccepted: called with every notification that was not accepted, from any thread and
  ///     from several at once. It must return soon. Default nil.
  /// - Throws: ``CarillonError/ErrorCode/audience`` if the file cannot be opened or has no
  ///   token, and as ``startCampaign(_:to:name:notAccepted:)-(_,[DeviceToken],_,_)``.
  public func startCampaign(
    _ notification: PushNotification, toTokensIn path: String, name: String = "",
    notAccepted: (@Sendable (UnacceptedNotification) -> Void)? = nil
  ) async throws(CarillonError) -> PushCampaign {
    var plan = try planned(notification, name)
    let source = try plan.source(file: path, from: nil)
    if core.journal != nil { plan.context.tokens = try FileFingerprint.ofRegularFile(path) }
    return try await begin(plan, source, notAccepted)
  }
}

extension PushApp {
  /// A new campaign, checked.
  func planned(_ notification: PushNotification, _ name: String) throws(CarillonError) -> PlannedCampaign {
    let template: PayloadTemplate
    do throws(PayloadTemplateError) {
      template = try PayloadTemplate(parsing: notification.json)
    } catch {
      throw CarillonError(.payload, "The notification: \(error).")
    }
    var plan = PlannedCampaign(notification, template: template, through: entry, now: core.wallClock)
    if let error = plan.findings.first(where: { $0.severity == .error }) {
      throw CarillonError(.payload, error.sentence)
    }
    plan.context.name = name
    plan.context.template = plan.template.map { _ in String(decoding: notification.json, as: UTF8.self) }
    return plan
  }

  func begin(
    _ plan: PlannedCampaign, _ source: CampaignSource, _ notAccepted: (@Sendable (UnacceptedNotification) -> Void)?,
    on runtime: AppRuntime? = nil
  ) async throws(CarillonError) -> PushCampaign {
    let unaccepted = UnacceptedNotifications()
    let listener = CampaignListener(
      goneDevices: entry.goneDevices, notAccepted: notAccepted, unaccepted: unaccepted.continuation)
    return try await begin(plan, source, listener: listener, unaccepted: unaccepted, on: runtime)
  }

  /// Begins a campaign, which continues in the background.
  ///
  /// - Parameter listener: gets the outcomes.
  package func begin(
    _ plan: PlannedCampaign, _ source: CampaignSource, listener: (any OutcomeListener)?
  ) async throws(CarillonError) -> PushCampaign {
    try await begin(plan, source, listener: listener, unaccepted: UnacceptedNotifications(), on: nil)
  }

  /// - Parameter promised: the app's part that the campaign was promised to: it may have been
  ///   removed meanwhile, and keeps the campaign. Nil: the present one.
  func begin(
    _ plan: PlannedCampaign, _ source: CampaignSource, listener: (any OutcomeListener)?,
    unaccepted: UnacceptedNotifications, on promised: AppRuntime?
  ) async throws(CarillonError) -> PushCampaign {
    let runtime = if let promised { promised } else { try await core.runtime(of: entry) }
    var number = plan.number
    if number == nil { number = try await runtime.engine.begin(plan.sent, app: id, context: plan.context) }
    let isServed = plan.context.served != nil
    let run = try runtime.begin(plan.sent, number, settlesRest: isServed, listener: listener)
    if isServed { run.pause() }
    let campaign = PushCampaign(
      run, app: id, name: plan.context.name, source: source,
      chunk: AudienceChunk(entryLimit: plan.entryLimit, payloadCapacity: plan.payloadCapacity),
      loop: runtime.engine.loop, isKept: isServed, unaccepted: unaccepted)
    guard runtime.engine.jobs.put({ await campaign.serve(runtime) }) else { throw DeploymentCore.hasEnded }
    return campaign
  }
}

/// Passes a campaign's outcomes to its callbacks.
private struct CampaignListener: OutcomeListener {
  let goneDevices: Multicast<PushApp.GoneDevice>
  let notAccepted: (@Sendable (UnacceptedNotification) -> Void)?
  let unaccepted: AsyncStream<UnacceptedNotification>.Continuation

  func notAccepted(line: UInt64, token: String, outcome: PushWire.Outcome, goneSince: UInt64?, isDoubted: Bool) {
    if let gone = PushApp.GoneDevice(token, outcome, goneSince: goneSince) { goneDevices.send(gone) }
    let notification = UnacceptedNotification(
      position: Int(clamping: line), token: token, outcome: PushOutcome(outcome, goneSince: goneSince))
    notAccepted?(notification)
    unaccepted.yield(notification)
  }
}

/// The notifications of a campaign that were not accepted, for one loop.
struct UnacceptedNotifications: Sendable {
  let stream: AsyncStream<UnacceptedNotification>
  let continuation: AsyncStream<UnacceptedNotification>.Continuation

  init() { (stream, continuation) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(16_384)) }
}

/// An array, read one by one as any other sequence.
private struct RecipientArray: AsyncSequence, AsyncIteratorProtocol, Sendable {
  var iterator: IndexingIterator<[Recipient]>

  mutating func next() async -> Recipient? { iterator.next() }

  func makeAsyncIterator() -> Self { self }
}
