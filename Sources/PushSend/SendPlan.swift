package import Carillon
package import PushEngine
internal import PushWire

/// What a send is asked to do, before anything is opened.
package struct SendPlan: Sendable {
  /// The apps that something is sent through, each once.
  package var apps: [AppConfiguration]
  /// Several entries may go through one app.
  package var entries: [Entry]
  /// Where to list what was not accepted; nil: nowhere.
  package var outcomes: String?
  /// Where to list the tokens of devices that no longer have the app; nil: nowhere.
  package var gone: String?
  /// The id was not given, so the account names the app by its certificate's topic.
  package var isNamedByTopic = false
  /// The journal, which lets a later process resume the campaign; nil: none.
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
      (self.directory, self.settings) = (directory, settings)
    }
  }

  package struct Entry: Sendable {
    package var app: String
    package var payloadFile: String
    /// Of the payload.
    let template: PayloadTemplate
    package var notification: PushNotification
    /// `-` is standard input.
    package var tokens: String
    /// As the user named it, if `tokens` says it otherwise.
    package var tokensName: String?
    /// The state in the journal, if it is resumed.
    var resumed: Resumed?

    /// Reads the payload.
    package init(app: String, payloadFile: String, tokens: String) throws(CarillonError) {
      (self.app, self.payloadFile, self.tokens) = (app, payloadFile, tokens)
      template = try PayloadTemplate.read(file: payloadFile)
      notification = PushNotification(json: template.source)
    }
  }

  struct Resumed: Sendable {
    var campaign: JournalledCampaign
    var mark: AudienceMark?
    /// Nil where no outcomes are listed.
    var settledLines: SettledLines?
  }

  package init(apps: [AppConfiguration], entries: [Entry], isNamedByTopic: Bool = false, journal: JournalPlan? = nil) {
    (self.apps, self.entries, self.isNamedByTopic, self.journal) = (apps, entries, isNamedByTopic, journal)
  }

  var isResumed: Bool { entries.contains { $0.resumed != nil } }

  func configuration(_ app: String) -> AppConfiguration? { apps.first { $0.id == app } }

  /// Throws if the campaign could not be resumed from a journal.
  ///
  /// - Parameter name: of the campaign, for the error.
  package func checkIsResumable(name: String) throws(CarillonError) {
    if entries.contains(where: { $0.tokens == "-" }) {
      throw CarillonError(
        .configuration,
        "Standard input cannot be read again when the campaign is resumed, so a journal cannot be used: save the "
          + "tokens to a file first")
    }
    if outcomes != nil, let entry = repeatedEntry {
      throw CarillonError(
        .configuration,
        "Two entries of \(name) send to \(entry.tokens) through \(entry.app), so the list of outcomes could not be "
          + "assigned to them when the campaign is resumed: give one of them a copy of the file, or send them one "
          + "after the other")
    }
  }

  /// An entry with the app and the token file of an earlier one.
  private var repeatedEntry: Entry? {
    entries.indices.first { index in
      entries[..<index].contains { $0.app == entries[index].app && $0.tokens == entries[index].tokens }
    }.map { entries[$0] }
  }
}

extension PayloadTemplate {
  /// Reads a payload, with placeholders or without, from a file.
  package static func read(file: String) throws(CarillonError) -> PayloadTemplate {
    do { return try PayloadTemplate(parsing: TextFile.read(file)) } catch let error as ConfigurationError {
      throw CarillonError(.payload, error.description)
    } catch {
      throw CarillonError(.payload, "\(file), \(error)")
    }
  }
}
