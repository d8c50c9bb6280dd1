internal import PushTransport

/// What a campaign sends to everyone in its audience.
package struct Campaign: Sendable {
  /// For everyone whose entry brings no payload of its own (a template's entries do).
  package var payload: [UInt8]
  /// Seconds since 1970; 0 for "do not store"; nil to leave it out.
  package var expiration: UInt32?
  /// 10 or 5; nil to leave it out.
  package var priority: UInt8?

  package init(payload: [UInt8], expiration: UInt32? = nil, priority: UInt8? = nil) {
    self.payload = payload
    self.expiration = expiration
    self.priority = priority
  }
}

/// Where a campaign's entries come from, a chunk at a time.
package protocol AudienceSource: Sendable {
  /// Puts the next entries into the chunk, which it empties first.
  func fill(_ chunk: AudienceChunk) throws(AudienceError) -> AudienceSupply
}

package enum AudienceSupply: Hashable, Sendable {
  case entries
  /// There is nothing to read now, but the audience has not ended (a pipe).
  case nothingYet
  /// There is nothing before this much time has passed (a source with a pace of its own).
  case nothingFor(Duration)
  case end
}

/// A campaign on its way through one app.
package struct CampaignRun: Sendable {
  package let ledger: CampaignLedger
  private let intake: Intake

  /// Opens the campaign's books. Throws when the app has failed.
  package init(_ campaign: Campaign, through app: App, listener: (any OutcomeListener)? = nil) throws(AppFailure) {
    intake = app.intake
    let command = app.configuration.command
    ledger = try app.intake.begin(
      makeFrames: { number in
        CampaignFrames(
          campaign: number, command: command, payload: campaign.payload, expiration: campaign.expiration, priority: campaign.priority)
      }, listener: listener)
  }

  /// Sends to the whole audience and returns when every notification has its outcome.
  ///
  /// An audience that cannot be read any further, and a cancelled campaign, still end in an account: what was submitted gets its outcome first.
  package func run(_ audience: some AudienceSource, chunk: AudienceChunk) async throws(AudienceError) {
    let reader = CampaignReader(ledger: ledger, intake: intake)
    let problem: AudienceError?
    do throws(AudienceError) {
      try await reader.submit(audience, chunk: chunk)
      problem = nil
    } catch {
      problem = error
    }
    intake.close(ledger)
    await ledger.finished()
    intake.forget(ledger)
    if let problem { throw problem }
  }

  /// Stops the intake; what is not sent yet is cancelled, what is under way gets its outcome.
  package func cancel() {
    ledger.cancel()
    intake.openDoors()
    intake.wakeLanes()
  }
}
