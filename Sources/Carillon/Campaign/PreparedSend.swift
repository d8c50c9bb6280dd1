internal import PushEngine

/// A plan whose files have been opened and whose credentials have been read: all that can be wrong
/// beforehand has been found.
package struct PreparedSend: Sendable {
  struct AppPart: Sendable {
    /// With the id that the account shows.
    var configuration: AppConfiguration
    var credential: ResolvedCredential
  }

  struct CampaignPart: Sendable {
    /// The id of an ``AppPart``.
    var app: String
    /// With placeholders every entry brings a payload of its own.
    var sent: Campaign
    var audience: SendAudience
    /// For `AudienceChunk(payloadCapacity:)`; 0 without placeholders.
    var payloadCapacity: Int
    /// As the user named it.
    var tokens: String
    /// The campaign's in the journal, if there is one.
    var number: UInt64?
    /// If it is resumed, the lines whose rows in the list of outcomes are valid.
    var settledLines: SettledLines?
  }

  var apps: [AppPart]

  /// Some of what is sent goes over HTTP/2, where a refusal may say since when a device is gone.
  var hasHTTP2: Bool { apps.contains { $0.configuration.transport.isHTTP2 } }
  var campaigns: [CampaignPart]
  /// Findings that do not stop anything, one sentence each.
  package var warnings: [String] = []

  /// Throws if a token file cannot be read again when the campaign is resumed, such as a pipe.
  package func checkIsResumable() throws(CarillonError) {
    guard let campaign = campaigns.first(where: { $0.audience.byteCount == nil }) else { return }
    throw CarillonError(
      .configuration,
      "\(campaign.tokens) cannot be read again when the campaign is resumed, so a journal cannot be used: save it to a "
        + "regular file first")
  }
}
