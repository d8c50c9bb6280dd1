internal import Carillon
internal import PushEngine
internal import PushServer
internal import PushTransport
internal import PushWire

/// What `carillon send` is asked to do, read from flags and files, before anything is opened.
struct SendPlan: Sendable {
  /// The apps that something is sent through, each once.
  var apps: [AppSettings]
  /// Several entries may go through one app.
  var entries: [Entry]
  /// One JSON object on standard output instead of a table.
  var json = false
  /// Where to list what was not accepted; nil: nowhere.
  var outcomes: String?
  /// Where to list the tokens of devices that no longer have the app; nil: nowhere.
  var gone: String?
  /// The id was not given, so the account names the app by its certificate's topic.
  var isNamedByTopic = false
  /// Where to write down what a next process must know; nil: nowhere.
  var journal: JournalPlan?
  /// When the resumed campaigns began, in seconds since 1970.
  var begunAt: UInt32?
  /// Campaigns that have ended, but belong to the same account as the others.
  var ended: [Ended] = []

  struct Ended: Sendable {
    var app: String
    /// As the user named the token file.
    var tokens: String
    var campaign: JournalledCampaign

    var account: Account { campaign.account }
  }

  struct JournalPlan: Sendable {
    var directory: String
    /// How durable it is.
    var settings: JournalConfiguration
  }

  struct Entry: Sendable {
    var app: String
    var payloadFile: String
    var template: PayloadTemplate
    /// `-` is standard input.
    var tokens: String
    /// As the user named it, if `tokens` says it otherwise.
    var tokensName: String?
    var expiration: Expiration?
    var priority: UInt8?
    var wishes = Wishes()
    /// What the journal knows of it, when it is gone on with.
    var resumed: Resumed?
  }

  /// What was said of the headers of HTTP/2; what is nil goes by the app's settings.
  struct Wishes: Hashable, Sendable {
    var topic: String?
    var pushType: PushType?
    var collapseIdentifier: String?
    /// The one broadcast goes here; there is no token file then.
    var channelIdentifier: String?

    /// The first that was said, as a flag.
    var flag: String? {
      let said = [
        ("--topic", topic != nil), ("--push-type", pushType != nil), ("--collapse-id", collapseIdentifier != nil), ("--channel", channelIdentifier != nil),
      ]
      return said.first { $0.1 }?.0
    }
  }

  struct Resumed: Sendable {
    var campaign: JournalledCampaign
    var mark: AudienceMark?
    /// Nil where no outcomes are listed.
    var settledLines: SettledLines?
  }

  func settings(_ app: String) -> AppSettings? { apps.first { $0.id == app } }

  /// Same app, same token file as one before it.
  var entryThatIsThereTwice: Entry? {
    entries.indices.first { index in entries[..<index].contains { $0.app == entries[index].app && $0.tokens == entries[index].tokens } }.map { entries[$0] }
  }
}

/// A plan whose files have been opened and whose credentials have been read: all that can be wrong beforehand has been found.
struct PreparedSend: Sendable {
  struct AppPart: Sendable {
    /// With the id that the account shows.
    var settings: AppSettings
    var access: ResolvedCredential
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
  var warnings: [String] = []
}
