package import PushEngine
internal import PushTransport
internal import PushWire
internal import Synchronization

/// A campaign on its way: one notification to many recipients.
///
/// ```swift
/// let sale = PushNotification(alert: "Sale ends {{day}}")
/// let campaign = try await news.startCampaign(sale, to: recipients)
/// for await progress in campaign.progress { print(progress.account.accepted) }
/// let account = try await campaign.result()
/// ```
///
/// It continues even if no one reads its progress. Back-pressure reaches its recipients: an
/// `AsyncSequence` is read as fast as the gateway accepts notifications, and no faster.
public final class PushCampaign: Sendable {
  /// Why a campaign ended before it was through.
  private enum Ending {
    case cancelled, cutShort
    case audience(AudienceError)
    case appStopped(String)
  }

  /// The ``AppConfiguration/id`` of its app.
  public let app: String
  /// The name that it was given, for people.
  public let name: String

  private let run: CampaignRun
  private let source: CampaignSource
  private let loop: any Loop
  private let unaccepted: UnacceptedNotifications
  private let chunk: AudienceChunk
  /// A service's campaign, which its app's registry knows since before the journal did. It resumes
  /// when its app is removed and added again.
  private let isKept: Bool
  private let startedAt: Instant
  private let ending = Mutex<Ending?>(nil)
  private let stallClock = Mutex(StallClock())
  private let ended = Gate()

  init(
    _ run: CampaignRun, app: String, name: String, source: CampaignSource, chunk: AudienceChunk, loop: any Loop,
    isKept: Bool, unaccepted: UnacceptedNotifications
  ) {
    (self.run, self.app, self.name, self.source) = (run, app, name, source)
    (self.loop, self.chunk, self.isKept, self.unaccepted) = (loop, chunk, isKept, unaccepted)
    startedAt = loop.now
  }

  // MARK: Its course

  /// Sends everything. Called once, by the deployment.
  func serve(_ runtime: AppRuntime) async {
    var registered = RunRegistry.Run(drain: { self.leave() }, cancel: { self.leave() }, isKept: isKept)
    if isKept { registered.stall = { self.stall() } }
    let number = runtime.runs.add(registered)
    if isKept { runtime.runs.endBeginning() }
    if number == nil { leave() }
    do throws(AudienceError) {
      try await source.run(run, chunk: chunk)
    } catch {
      note(.audience(error))
    }
    if run.hasLeftRest { ending.withLock { $0 = .cutShort } }
    if run.ledger.isCancelled, let reason = runtime.app.failure { note(.appStopped(reason)) }
    ended.open()
    unaccepted.continuation.finish()
    if let number { runtime.runs.remove(number) }
  }

  private func stall() -> Duration {
    let account = accountSoFar
    return stallClock.withLock {
      $0.look(settledCount: account.submitted - account.inFlight, isPaused: isPaused, now: loop.now)
    }
  }

  /// The first reason counts.
  private func note(_ reason: Ending) { ending.withLock { $0 = $0 ?? reason } }

  /// The deployment or its app ends: with a journal, the campaign can be resumed.
  package func leave() {
    note(.cutShort)
    run.leave()
  }

  /// Stops reading recipients until ``resume()``.
  ///
  /// What was read before is still sent: as much as the connections take within about 300 ms.
  public func pause() { run.pause() }

  /// Continues after ``pause()``.
  public func resume() { run.resume() }

  /// It reads no recipients at present, because of ``pause()``.
  public var isPaused: Bool { run.ledger.isPaused }

  /// Ends the campaign: nothing more is read, what was read and not sent yet counts as
  /// ``PushOutcome/cancelled``, and what is in flight still gets its outcome. With a journal, the
  /// campaign has ended there too, and cannot be resumed.
  public func cancel() {
    note(.cancelled)
    run.abandon()
  }

  /// After it could not be read to its end: it has ended in the journal too, and is not resumed.
  package func giveUp() { run.giveUp() }

  // MARK: What came of it

  /// The account when the campaign has ended.
  ///
  /// - Throws: if it ended before it was through, other than by ``cancel()``:
  ///   ``CarillonError/ErrorCode/audience`` if its recipients could not be read to their
  ///   end, ``CarillonError/ErrorCode/gateway`` if its app has stopped, and
  ///   ``CarillonError/ErrorCode/cancelled`` if the deployment has ended or the app was
  ///   removed. ``accountSoFar`` is final then. Also ``CarillonError/ErrorCode/cancelled``
  ///   if the task that waits is cancelled; the campaign continues.
  public func result() async throws(CarillonError) -> CampaignAccount {
    await ended.wait()
    guard ended.isOpen else { throw CarillonError(.cancelled, "The task was cancelled before the campaign had ended.") }
    switch ending.withLock({ $0 }) {
    case nil, .cancelled: return accountSoFar
    case .cutShort: throw CarillonError(.cancelled, "The deployment or the app \"\(app)\" ended before the campaign.")
    case .appStopped(let reason): throw CarillonError(.gateway, "The app \"\(app)\" has stopped: \(reason).")
    case .audience(let error):
      if case .cannotRead(let reason) = error.problem, error.path == nil {
        throw CarillonError(.audience, "The recipients cannot be read any further: \(reason).")
      }
      throw CarillonError(.audience, error.description)
    }
  }

  /// What has become of its notifications so far. It adds up at every moment.
  public var accountSoFar: CampaignAccount { CampaignAccount(run.ledger.account) }

  /// As the engine counts.
  package var engineAccount: Account { run.ledger.account }

  /// It was cancelled, or left.
  package var isCancelled: Bool { run.ledger.isCancelled }

  /// What of its token file was never taken in; nil: nothing, as far as is known.
  package var unread: AudienceUnread? { source.unread(run.ledger.unread) }

  /// Waits for the end, whatever becomes of the task, and returns why its recipients could not be
  /// read to their end; nil if they could.
  package func readingProblem() async -> AudienceError? {
    await ended.wait(ignoringCancellation: true)
    return ending.withLock { if case .audience(let problem) = $0 { problem } else { nil } }
  }

  /// How much of its recipients has been read, from 0 to 1; nil if that is unknown.
  package var fractionRead: Double? { source.fractionRead(submitted: accountSoFar.submitted) }

  /// The notifications that were not accepted, for one loop. It ends with the campaign.
  ///
  /// A loop that falls behind by more than 16,384 loses the oldest; `notAccepted` of
  /// ``PushApp/startCampaign(_:to:name:notAccepted:)-(_,[DeviceToken],_,_)`` loses none.
  public var unacceptedNotifications: some AsyncSequence<UnacceptedNotification, Never> & Sendable { unaccepted.stream }

  /// Snapshots, four a second, the first at once and the last when the campaign has ended.
  ///
  /// Each loop over it has its own. A slow loop gets fewer, not older ones.
  public var progress: some AsyncSequence<CampaignProgress, Never> & Sendable { ProgressSequence(campaign: self) }

  private var snapshot: CampaignProgress {
    let hasEnded = ended.isOpen
    let account = accountSoFar
    return CampaignProgress(
      account: account, fractionRead: source.fractionRead(submitted: account.submitted),
      elapsed: loop.now.since(startedAt), isPaused: isPaused, hasEnded: hasEnded)
  }

  private struct ProgressSequence: AsyncSequence, AsyncIteratorProtocol, Sendable {
    let campaign: PushCampaign
    private var isFirst = true
    private var hasEnded = false

    init(campaign: PushCampaign) { self.campaign = campaign }

    func makeAsyncIterator() -> Self { self }

    mutating func next() async -> CampaignProgress? {
      if hasEnded { return nil }
      if !isFirst { await campaign.ended.wait(atMost: .milliseconds(250), on: campaign.loop) }
      if Task.isCancelled { return nil }
      isFirst = false
      let snapshot = campaign.snapshot
      hasEnded = snapshot.hasEnded
      return snapshot
    }
  }
}

/// How long a campaign has had no new outcome, as of the last sample. A campaign has its own pace,
/// so the age of its notifications says nothing.
struct StallClock: Sendable {
  private var seen: (settledCount: Int, at: Instant)?

  /// - Parameters:
  ///   - settledCount: how many of its notifications have an outcome.
  ///   - isPaused: it sends nothing because it was paused, or because it is held.
  /// - Returns: the time since the first look that found this number.
  mutating func look(settledCount: Int, isPaused: Bool, now: Instant) -> Duration {
    if !isPaused, let seen, seen.settledCount == settledCount {
      return seen.at < now ? now.since(seen.at) : .zero
    }
    seen = isPaused ? nil : (settledCount, now)
    return .zero
  }
}
