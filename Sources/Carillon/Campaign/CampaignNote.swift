internal import Foundation

/// What the journal keeps of a campaign for resuming, beside what the engine needs.
struct CampaignNote: Hashable, Sendable, Codable {
  /// Single notifications, whose senders have gone with their process.
  var isSingleSends = false
  /// The user's own name for the campaign.
  var name = ""
  /// The notification, if it has placeholders: the journal keeps only what all have in common.
  var template: String?
  /// Of the token file that it reads: it can only be resumed with the same one. Nil for other
  /// recipients, and for files that cannot be read twice, such as pipes.
  var tokens: FileFingerprint?
  /// The run whose notifications these are, for what a service took in: see ``IntakeRunID``.
  var intakeRun: String?
  /// What a service calls it: see ``ServedCampaign``.
  var served: String?

  var bytes: [UInt8] {
    let encoder = JSONEncoder()
    encoder.outputFormatting = .sortedKeys
    // Plain values can always be encoded.
    return (try? encoder.encode(self)).map(Array.init) ?? []
  }

  init(isSingleSends: Bool = false, name: String = "", template: String? = nil) {
    self.isSingleSends = isSingleSends
    self.name = name
    self.template = template
  }

  init(intakeRun: IntakeRunID) {
    self.intakeRun = NotificationID(run: intakeRun, line: 0).description
  }

  /// What another program wrote counts as a campaign without a name.
  init(reading bytes: [UInt8]) {
    self = (try? JSONDecoder().decode(CampaignNote.self, from: Data(bytes))) ?? CampaignNote()
  }
}
