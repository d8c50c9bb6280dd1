package import PushEngine
internal import PushWire

/// What a send is asked to do, before anything is opened.
package struct SendPlan: Sendable {
  /// The apps that something is sent through, each once.
  package var apps: [AppSettings]
  /// Several entries may go through one app.
  package var entries: [Entry]
  /// Where to list what was not accepted; nil: nowhere.
  package var outcomes: String?
  /// Where to list the tokens of devices that no longer have the app; nil: nowhere.
  package var gone: String?
  /// The id was not given, so the account names the app by its certificate's topic.
  package var isNamedByTopic = false
  /// Where to write down what a next process must know; nil: nowhere.
  package var journal: JournalPlan?
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

  package struct JournalPlan: Sendable {
    package var directory: String
    /// How durable it is.
    package var settings: JournalConfiguration

    package init(directory: String, settings: JournalConfiguration) {
      self.directory = directory
      self.settings = settings
    }
  }

  package struct Entry: Sendable {
    package var app: String
    package var payloadFile: String
    package var template: PayloadTemplate
    /// `-` is standard input.
    package var tokens: String
    /// As the user named it, if `tokens` says it otherwise.
    package var tokensName: String?
    package var expiration: Expiration?
    package var priority: UInt8?
    package var overrides = HeaderOverrides()
    /// What the journal knows of it, when it is gone on with.
    var resumed: Resumed?

    package init(
      app: String, payloadFile: String, template: PayloadTemplate, tokens: String, expiration: Expiration? = nil,
      priority: UInt8? = nil, overrides: HeaderOverrides = HeaderOverrides()
    ) {
      self.app = app
      self.payloadFile = payloadFile
      self.template = template
      self.tokens = tokens
      self.expiration = expiration
      self.priority = priority
      self.overrides = overrides
    }
  }

  struct Resumed: Sendable {
    var campaign: JournalledCampaign
    var mark: AudienceMark?
    /// Nil where no outcomes are listed.
    var settledLines: SettledLines?
  }

  package init(
    apps: [AppSettings], entries: [Entry], isNamedByTopic: Bool = false, journal: JournalPlan? = nil
  ) {
    self.apps = apps
    self.entries = entries
    self.isNamedByTopic = isNamedByTopic
    self.journal = journal
  }

  func settings(_ app: String) -> AppSettings? { apps.first { $0.id == app } }

  /// Same app, same token file as one before it.
  package var entryThatIsThereTwice: Entry? {
    entries.indices.first { index in
      entries[..<index].contains { $0.app == entries[index].app && $0.tokens == entries[index].tokens }
    }.map { entries[$0] }
  }
}
