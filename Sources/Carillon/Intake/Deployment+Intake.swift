internal import PushEngine
internal import PushWire

extension Deployment {
  /// Makes ``PushApp/submit(_:)`` possible. The outcomes of everything that is accepted, now or by
  /// an earlier process, are reported to `recorder`. To be called once, before the deployment runs.
  ///
  /// - Throws: ``CarillonError/ErrorCode/configuration`` without a journal.
  package func recordIntake(with recorder: any IntakeRecorder) throws(CarillonError) {
    guard let journal = core.journal else {
      throw CarillonError(.configuration, "Taking notifications in needs a journal.")
    }
    journal.writeSettlements(
      after: { () throws(UnsyncedList) in try recorder.makeDurable() },
      intakeAfter: { () throws(UnsyncedList) in try recorder.makeIntakeDurable() },
      positionsAfter: { () throws(UnsyncedList) in try recorder.makePassedDurable() })
    core.intakeRecorder = recorder
  }

  /// How many notifications removed apps have left in the journal, by the app's id. An app resumes
  /// them when it is added again with the same settings, otherwise after the next start.
  package var leftByRemovedApps: [String: Int] { core.parkedCounts }

  /// Resumes everything that earlier processes accepted. Returns what belongs to missing or stopped
  /// apps: it stays in the journal.
  ///
  /// - Parameter owned: of the runs that other nodes can take over, those that none has. The
  ///   journal forgets the others, without outcomes.
  package func resumeIntake(owned: Set<IntakeRunID> = []) async -> [(app: String, reason: String)] {
    var left: [(app: String, reason: String)] = []
    var hasForgotten = false
    for state in core.unfinished {
      let context = CampaignContext(reading: state.campaign.context)
      guard let text = context.intakeRun, let run = NotificationID(text)?.run else { continue }
      guard !context.isShared || owned.contains(run) else {
        if core.take(unfinished: state.campaign.number) {
          core.journal?.abandonCampaign(state.campaign.number)
          hasForgotten = true
        }
        continue
      }
      do throws(CarillonError) {
        let entry = try core.entry(state.campaign.app)
        let intake = try await core.runtime(of: entry).intake
        guard let intake, core.take(unfinished: state.campaign.number) else { continue }
        intake.resume(state.campaign, as: run, isBridge: context.isBridge, isShared: context.isShared)
      } catch { left.append((state.campaign.app, error.message)) }
    }
    // This process may get them back from the store, and must not find them in the journal then.
    if hasForgotten { try? await makeJournalDurable() }
    return left
  }
}

extension PushApp {
  /// Accepts notifications durably. Returns when the journal has them, by its sync policy.
  ///
  /// The gateway need not be reachable, and the app may be paused or suspended. The outcomes go to
  /// the deployment's recorder.
  ///
  /// - Returns: the identifier of each, in the same order.
  /// - Throws: ``CarillonError/ErrorCode/payload`` before anything is accepted,
  ///   ``CarillonError/ErrorCode/gateway`` if the app has stopped,
  ///   ``CarillonError/ErrorCode/journal`` and
  ///   ``CarillonError/ErrorCode/cancelled`` as ``send(_:to:)->PushOutcome`` does. After
  ///   the last two some may be sent all the same.
  package func submit(
    _ notifications: [(PushNotification, DeviceToken)]
  ) async throws(CarillonError) -> [NotificationID] {
    try await submit(IntakeBatch(try prepare(notifications)))
  }

  /// The same for notifications that are checked already.
  ///
  /// - Parameters:
  ///   - isShared: other nodes can take them over.
  ///   - assigned: see ``take(_:assigned:answer:)``.
  ///   - queued: called when ``queuedByteCount`` has them, before they are in the journal.
  package func submit(
    _ notifications: [(PreparedNotification, DeviceToken)], isShared: Bool = false,
    assigned: (_ places: [Range<Int>], IntakeRunID, _ firstLine: UInt32) -> Void = { _, _, _ in },
    queued: () -> Void = {}
  ) async throws(CarillonError) -> [NotificationID] {
    try await submit(IntakeBatch(notifications, isShared: isShared), assigned: assigned, queued: queued)
  }

  /// The same for a batch.
  package func submit(
    _ batch: IntakeBatch,
    assigned: (_ places: [Range<Int>], IntakeRunID, _ firstLine: UInt32) -> Void = { _, _, _ in },
    queued: () -> Void = {}
  ) async throws(CarillonError) -> [NotificationID] {
    guard let intake = try await core.runtime(of: entry).intake else {
      throw CarillonError(.configuration, "The deployment has no recorder for what it takes in.")
    }
    return try await intake.submit(batch, assigned: assigned, queued: queued)
  }

  /// Whether a broadcast can be submitted: false while as many channels as an app may use at one
  /// time have been used within the last minute.
  package func hasRoom(for broadcast: PreparedNotification) -> Bool {
    entry.runtime?.intake?.hasRoom(for: broadcast) ?? true
  }

  /// The memory of everything that was handed to ``submit(_:)`` and given to no connection yet,
  /// acknowledged or not.
  package var queuedByteCount: Int { entry.runtime?.intake?.queuedByteCount ?? 0 }
}
