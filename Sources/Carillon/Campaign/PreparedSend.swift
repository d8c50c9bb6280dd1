internal import PushEngine

/// A plan whose files have been opened and whose credentials have been read: all that can be wrong
/// beforehand has been found.
package struct PreparedSend: Sendable {
  struct AppPart: Sendable {
    /// With the id that the account shows.
    var settings: AppSettings
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
    /// When it is gone on with, what its list of outcomes rightly says already.
    var settledLines: SettledLines?
  }

  var apps: [AppPart]

  /// Some of what is sent goes over HTTP/2, where a refusal may say since when a device is gone.
  var hasHTTP2: Bool { apps.contains { $0.settings.transport == .http2 } }
  var campaigns: [CampaignPart]
  /// Findings that do not stop anything, one sentence each.
  package var warnings: [String] = []

  /// A token file that cannot be read again, such as a pipe.
  package var unrepeatableTokens: String? { campaigns.first { $0.audience.byteCount == nil }?.tokens }
}
