internal import Carillon
internal import HTTPTypes
internal import PushEngine
package import PushStore
package import PushWire
internal import Synchronization

/// Changes campaigns in the store, one change at a time for each, and wakes their drivers.
package final class CampaignController: Sendable {
  /// For tests of the simulation.
  package enum PlantedMistake: CaseIterable, Sendable {
    /// What ends while the parts are read is taken for one that has not begun.
    case readsPartsFirst
    case forgetsQuietHours
    /// The first devices behind the last one that was read get nothing.
    case skipsOnResume
    /// Members that are not fixed yet are not waited for.
    case outrunsTheCut
    /// Whoever is read once more is counted for caps as for another campaign.
    case countsAgain
  }

  package let store: any Store
  package let clock: any ServiceClock
  let plantedMistake: PlantedMistake?
  let segmentMistake: SegmentMachine.PlantedMistake?
  let segmentSizes: SegmentSizes
  private let events: EventLog?
  private let lives = Mutex<[StoredUUID: LiveCampaign]>([:])
  /// Set when there may be segments to claim.
  let segmentSignal = ReaderSignal()
  /// Set when there is a rate to share with other processes.
  let rateSignal = ReaderSignal()
  /// Campaigns that need a driver.
  let work = Mailbox<LiveCampaign>()

  /// - Parameter events: gets what campaigns do by themselves.
  package init(
    store: any Store, clock: any ServiceClock = MachineClock(), events: EventLog? = nil,
    plantedMistake: PlantedMistake? = nil, segmentMistake: SegmentMachine.PlantedMistake? = nil,
    segmentSizes: SegmentSizes = SegmentSizes()
  ) {
    (self.store, self.clock, self.events, self.segmentSizes) = (store, clock, events, segmentSizes)
    (self.plantedMistake, self.segmentMistake) = (plantedMistake, segmentMistake)
  }

  package func live(_ id: StoredUUID, app: String) -> LiveCampaign {
    lives.withLock { lives in
      if let live = lives[id] { return live }
      let live = LiveCampaign(id: id, app: app, clock: clock)
      lives[id] = live
      return live
    }
  }

  package func live(_ id: StoredUUID) -> LiveCampaign? { lives.withLock { $0[id] } }

  package var all: [LiveCampaign] { lives.withLock { Array($0.values) } }
  /// Every driver looks again: apps have changed.
  package func signalAll() { for live in lives.withLock({ Array($0.values) }) { live.signal.set() } }

  func forget(_ id: StoredUUID) { lives.withLock { $0[id] = nil } }

  func wake(_ campaign: CampaignHead) {
    let live = live(campaign.id, app: campaign.app)
    live.signal.set()
    work.put(live)
  }

  /// Changes a campaign as an event demands, and then as `edit` says. Both decide on the record
  /// that they change: if it was changed meanwhile, they are asked again. An event that changes
  /// nothing in this state edits nothing either.
  ///
  /// - Parameter pieces: bytes that its upload has by this change, if nodes share the store.
  /// - Throws: ``Problem`` with 404, or with 409 if the event does not fit the state;
  ///   ``StoreError``; what `event` and `edit` throw.
  @discardableResult
  package func change(
    _ id: StoredUUID, _ event: (StoredCampaign) throws -> CampaignEvent,
    _ edit: (inout StoredCampaign) throws -> Void = { _ in }, adding pieces: [AudiencePiece] = []
  ) async throws -> StoredCampaign {
    while true {
      guard let old = try await store.campaign(id), let state = CampaignState(rawValue: old.state) else {
        throw Problem.missing("campaign \(id.text)")
      }
      var new = old
      let event = try event(old)
      switch state.after(event) {
      case .refused(let why):
        throw Problem(.conflict, "Wrong state", why)
      case .stays: return old
      case .edits: break
      case .to(let next):
        new.state = next.rawValue
        new.reason = ""
        new.isDoubtful = false
        // It was never started, so nobody waits for it.
        if next == .cancelled, state == .draft || state == .uploading { new.endedAt = clock.now }
      }
      try edit(&new)
      if new == old { return old }
      new.changedAt = clock.now
      let isUpdated: Bool
      do throws(StoreError) { isUpdated = try await update(new, from: old.version, adding: pieces) } catch {
        // It may be changed all the same: then its driver must know.
        wake(new.head)
        throw error
      }
      guard isUpdated else { continue }
      new.version = old.version + 1
      if new.state != old.state, event.happensByItself {
        events?.note(
          "campaign \(new.state)", app: new.app, subject: id.text, reason: new.reason.isEmpty ? nil : new.reason)
      }
      if new.state != old.state || new.content != old.content { wake(new.head) }
      return new
    }
  }

  private func update(
    _ campaign: StoredCampaign, from version: Int64, adding pieces: [AudiencePiece]
  ) async throws(StoreError) -> Bool {
    guard !pieces.isEmpty, let ledger = store.ledger else { return try await store.update(campaign, from: version) }
    return try await ledger.update(campaign, from: version, adding: pieces)
  }

  /// Starts a campaign, now or at its time.
  ///
  /// - Throws: as ``change(_:_:_:)``, and ``Problem`` with 409 if its audience was not uploaded, or
  ///   with 422 if its time has passed.
  package func start(_ id: StoredUUID) async throws -> StoredCampaign {
    try await change(id) { record in
      let plan = try CampaignPlan(parsing: record.content[...])
      if record.status == .draft, plan.source == .upload, !record.upload.isComplete {
        throw Problem(
          .conflict, "No audience", "The campaign has no audience yet.",
          action: "Upload one: POST …/campaigns/\(record.id.text)/audience.")
      }
      if record.status == .draft { try plan.checkTime(now: clock.now) }
      return .started(isDue: plan.dueAt <= clock.now)
    } _: { record in
      if record.status == .running { record.startedAt = record.startedAt ?? clock.now }
    }
  }

  /// An upload of the audience begins. What was uploaded before is taken from the campaign as it is
  /// then: an upload that was cut off may store its last lines just before.
  ///
  /// - Parameter first: the number of the first line that comes; nil: the audience begins anew.
  /// - Returns: the campaign, and how many of the lines that come are there already.
  /// - Throws: as ``change(_:_:_:)``, and ``Problem`` with 409 if lines would be missing.
  package func beginUpload(
    _ id: StoredUUID, at first: Int64?
  ) async throws -> (campaign: StoredCampaign, skipCount: Int64) {
    var skipCount: Int64 = 0
    let campaign = try await change(id, { _ in .uploadBegan }) { campaign in
      if first == nil { campaign.upload = StoredUpload() }
      let lineCount = campaign.upload.lineCount
      skipCount = first.map { lineCount + 1 - $0 } ?? 0
      guard skipCount >= 0 else {
        throw Problem(
          .conflict, "Lines missing", "The service has \(lineCount) lines of the audience.",
          action: "Continue with Carillon-First-Line: \(lineCount + 1).")
      }
      campaign.upload.isComplete = false
    }
    return (campaign, skipCount)
  }
}

extension CampaignHead {
  package var status: CampaignState { CampaignState(rawValue: state) ?? .failed }
}
