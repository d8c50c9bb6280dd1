internal import PushTransport
package import PushWire

/// What a campaign sends to all recipients.
package struct Campaign: Sendable {
  /// For recipients whose entry has no payload of its own. A template gives each entry one.
  package var payload: [UInt8]
  /// Seconds since 1970; 0 for "do not store"; nil to leave it out.
  package var expiration: UInt32?
  /// 10 or 5, or 1 over HTTP/2; nil to leave it out.
  package var priority: UInt8?
  /// The headers over HTTP/2; nil: an alert to the topic of the certificate. Their expiration and
  /// priority are ignored in favour of the campaign's, see ``requestHeaders``. Check them before
  /// with ``ProviderHeaders/check(payload:credential:)``.
  package var headers: ProviderHeaders?
  /// The seed of each notification's `apns-id`, together with its line, unless the line has one.
  /// Random by default. A campaign that is resumed from a journal uses the journal's.
  package var seed: IdentifierSeed
  /// Nil: no other process may send any of it.
  package var lease: SendLease?

  package init(
    payload: [UInt8], expiration: UInt32? = nil, priority: UInt8? = nil, headers: ProviderHeaders? = nil,
    seed: IdentifierSeed = .random()
  ) {
    (self.payload, self.expiration, self.priority) = (payload, expiration, priority)
    (self.headers, self.seed) = (headers, seed)
  }

  /// All headers, with the campaign's expiration and priority.
  package var requestHeaders: ProviderHeaders {
    var headers = headers ?? ProviderHeaders(topic: nil)
    headers.expiration = expiration
    headers.priority = priority
    return headers
  }
}

extension IdentifierSeed {
  package static func random() -> IdentifierSeed {
    IdentifierSeed(high: .random(in: 0 ... .max), low: .random(in: 0 ... .max))
  }
}

/// The source of a campaign's entries, a chunk at a time.
package protocol AudienceSource: Sendable {
  /// Puts the next entries into the chunk, which it empties first.
  func fill(_ chunk: AudienceChunk) throws(AudienceError) -> AudienceSupply
  /// A reader begins to read. A source that answers `waiting` keeps the signal, and sets it when it
  /// has something.
  func attach(_ signal: ReaderSignal)

  /// Everything up to a line is in rings or in the reservoir, and in the records of the journal, if
  /// there is one. By default of no interest.
  func recorded(through line: UInt64)

  /// Not nil: what no lane has room for is written into the journal and read on, see ``Reservoir``.
  /// Nil, as by default: the reader waits until a lane has room.
  var reservoir: ReservoirGauge? { get }
  /// Its own rate, at which what an earlier process left is sent, too. Nil, as by default: none.
  var pace: CampaignPace? { get }

  /// As ``fill(_:)``, without a pace of its own: nothing of it is sent any more.
  func fillUnpaced(_ chunk: AudienceChunk) throws(AudienceError) -> AudienceSupply
}

extension AudienceSource {
  package func attach(_ signal: ReaderSignal) {}
  package func recorded(through line: UInt64) {}
  package var reservoir: ReservoirGauge? { nil }
  package var pace: CampaignPace? { nil }

  package func fillUnpaced(_ chunk: AudienceChunk) throws(AudienceError) -> AudienceSupply { try fill(chunk) }
}

package enum AudienceSupply: Hashable, Sendable {
  case entries
  /// There is nothing to read now, but the audience has not ended (a pipe).
  case nothingYet
  /// There is nothing for this long (a source with its own pace).
  case nothingFor(Duration)
  /// There is nothing until the source sets its signal.
  case waiting
  case end
}

/// A campaign that is sent through one app.
package struct CampaignRun: Sendable {
  package let ledger: CampaignLedger
  private let shared: AppShared
  private let policy: LanePolicy
  /// The campaign's state in the journal; nil without a journal.
  private let journalled: JournalledCampaign?
  private let recoveredRuns: [RecoveredRun]
  /// Cancelled for good, it reads the rest of its audience, and all of them count as cancelled.
  private let settlesRest: Bool

  /// Opens the campaign's ledger.
  ///
  /// - Parameter number: The campaign's number in the app's journal, from
  ///   ``EngineJournal/begin(_:)`` or ``EngineJournal/campaigns``. The work of earlier processes is
  ///   part of its account, and what they left is sent first. Nil when the app has no journal.
  /// - Parameter settlesRest: When the campaign is abandoned, the rest of its audience is read, and
  ///   everybody in it counts as cancelled.
  /// - Throws: ``AppFailure`` when the app has failed.
  package init(
    _ campaign: Campaign, through app: App, journalled number: UInt64? = nil, settlesRest: Bool = false,
    listener: (any OutcomeListener)? = nil
  ) throws(AppFailure) {
    self.settlesRest = settlesRest
    shared = app.shared
    policy = app.configuration.policy
    let journalled = number.flatMap { app.shared.journal?.campaign($0) }
    precondition((app.shared.journal == nil) == (journalled == nil), "a campaign belongs to the journal of its app")
    self.journalled = journalled
    // A campaign that has submitted nothing has left no runs.
    recoveredRuns =
      journalled.flatMap { campaign in
        campaign.account.submitted == 0 ? nil : app.shared.journal?.recoveredRuns(of: campaign.number)
      } ?? []
    let configuration = app.configuration
    ledger = try app.shared.campaigns.begin { number in
      let frames =
        switch configuration.transport {
        case .binary:
          CampaignFrames(
            campaign: number, command: configuration.command, payload: campaign.payload,
            expiration: campaign.expiration, priority: campaign.priority)
        case .http2(let settings):
          CampaignFrames(
            campaign: number, authority: settings.authority, headers: campaign.requestHeaders,
            credential: settings.credential, payload: campaign.payload, seed: journalled?.seed ?? campaign.seed)
        }
      return CampaignLedger(
        frames: frames, journalNumber: journalled?.number, rank: ClaimOrder.Rank(priority: campaign.priority),
        maxAge: configuration.maxAge, lease: campaign.lease, account: journalled?.account ?? Account(),
        listener: listener)
    }
  }

  /// Sends to the whole audience and returns when every notification has its outcome.
  ///
  /// An audience that cannot be read any further, and a cancelled campaign, still end with an
  /// account: what was submitted gets its outcome first. With a journal such a campaign stays open
  /// and can be resumed.
  ///
  /// - Parameter audience: Begins at ``mark``, where the campaign continues.
  package func run(_ audience: some AudienceSource, chunk: AudienceChunk) async throws(AudienceError) {
    try await run(audience, chunks: ChunkPool(chunk))
  }

  /// The same for an audience that seldom has something.
  ///
  /// - Parameter chunks: with room for any payload.
  package func run(_ audience: some AudienceSource, chunks: ChunkPool) async throws(AudienceError) {
    var reader = CampaignReader(
      ledger: ledger, shared: shared, policy: policy, journalled: journalled, pace: audience.pace)
    let problem: AudienceError?
    let reservoir = audience.reservoir
    if !recoveredRuns.isEmpty { await reader.submit(recoveredRuns, from: reservoir) }
    do throws(AudienceError) {
      if let reservoir { reader.reservoir = shared.journal.map { Reservoir(journal: $0, gauge: reservoir) } }
      let chunk = try await reader.submit(audience, chunks: chunks)
      if settlesRest, ledger.isAbandoned { try await reader.settleRest(of: audience, chunk: chunk) }
      chunks.give(chunk)
      problem = nil
    } catch { problem = error }
    ledger.stoppedReading(at: reader.unread)
    shared.close(ledger)
    await ledger.finished()
    shared.campaigns.forget(ledger)
    if let number = journalled?.number, problem == nil, !ledger.isCancelled || ledger.isAbandoned, !hasLeftRest {
      ledger.reportEnd()
      shared.journal?.end(number)
    }
    if let problem { throw problem }
  }

  /// It was cancelled for good, and ended before the rest of its audience was settled: with a
  /// journal, the next process continues that.
  package var hasLeftRest: Bool { settlesRest && ledger.leavesRest && ledger.unread != nil }

  /// Where in its audience the campaign continues; nil: at the beginning.
  package var mark: AudienceMark? { journalled.flatMap { $0.readLine == 0 ? nil : $0.mark } }

  /// Stops the intake. Notifications not sent yet are cancelled; those in flight get their outcome.
  package func cancel() {
    ledger.cancel()
    shared.wasCancelled()
  }

  /// The same for good: with a journal, the campaign has ended then, and cannot be resumed.
  package func abandon() {
    ledger.abandon()
    shared.wasCancelled()
  }

  /// The process ends, or the app is removed: as ``cancel()``. What an ``abandon()`` before it has
  /// still to settle is left.
  package func leave() {
    cancel()
    ledger.leaveRest()
  }

  /// Records that the campaign has ended, after a run that ended early.
  package func giveUp() {
    guard let number = journalled?.number else { return }
    ledger.reportEnd()
    shared.journal?.end(number)
  }

  /// Stops reading the audience until ``resume()``. What was taken in is still sent: as much as the
  /// lanes send within about 300 ms.
  package func pause() { ledger.setPaused(true) }

  package func resume() { ledger.setPaused(false) }
}
