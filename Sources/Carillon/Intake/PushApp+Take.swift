internal import PushEngine

extension PushApp {
  /// Takes notifications in as ``submit(_:)`` does, without waiting for anything: for callers on an
  /// event loop.
  ///
  /// - Parameters:
  ///   - assigned: called before this returns, and before anything can be reported of the
  ///     notifications: which of them, by their places in the batch, are neighbouring lines of a
  ///     run, and the first line.
  ///   - answer: called for each run: with nil when they are in the journal, otherwise with why
  ///     not.
  /// - Throws: the app was removed, or the deployment has ended. What `assigned` was not called for
  ///   was not taken in.
  package func take(
    _ batch: IntakeBatch, assigned: (_ places: [Range<Int>], IntakeRunID, _ firstLine: UInt32) -> Void,
    answer: @escaping @Sendable (CarillonError?) -> Void
  ) throws(CarillonError) {
    guard let runtime = entry.runtime else {
      throw CarillonError(.cancelled, "The app \"\(entry.id)\" was removed from its deployment.")
    }
    if let failure = runtime.failure { throw failure }
    guard let intake = runtime.intake else {
      throw CarillonError(.configuration, "The deployment has no recorder for what it takes in.")
    }
    try intake.take(batch, assigned: assigned, answer: answer)
  }
}

/// The wait of a caller that bounds how many of its notifications have no outcome. The app learns
/// of it, to open more connections if its present ones are behind.
package struct ProducerWait {
  private let app: App

  /// Begins the wait. Nil: the app is not running.
  package init?(for app: PushApp) {
    guard let runtime = app.entry.runtime else { return nil }
    self.app = runtime.app
    self.app.producerWaits()
  }

  /// To be called once.
  package func end() { app.producerContinues() }
}

extension Deployment {
  /// For each run that an earlier process left unfinished, the last line that the journal has of
  /// it. Only before ``resumeIntake()``.
  package var unfinishedIntakeLines: [IntakeRunID: UInt64] { intakeLines { _ in true } }

  /// Only of those that other nodes can take over.
  package var unfinishedSharedLines: [IntakeRunID: UInt64] { intakeLines(where: \.isShared) }

  /// The lines of a run that may have been sent, and are sent again when it is resumed. Only before
  /// ``resumeIntake(owned:)``.
  package func doubtedIntakeLines(of run: IntakeRunID) -> [UInt64] {
    let name = NotificationID(run: run, line: 0).description
    guard let journal = core.journal,
      let state = core.unfinished.first(where: { CampaignContext(reading: $0.campaign.context).intakeRun == name }),
      (try? app(state.campaign.app))?.configuration.onUnknown == .resend
    else { return [] }
    return journal.recoveredRuns(of: state.campaign.number).filter { $0.fate != .unsent }.flatMap(\.lines)
  }

  private func intakeLines(where isWanted: (CampaignContext) -> Bool) -> [IntakeRunID: UInt64] {
    var lines: [IntakeRunID: UInt64] = [:]
    for state in core.unfinished {
      let context = CampaignContext(reading: state.campaign.context)
      guard isWanted(context), let run = context.intakeRun.flatMap({ NotificationID($0)?.run }) else { continue }
      lines[run] = state.campaign.readLine
    }
    return lines
  }
}
