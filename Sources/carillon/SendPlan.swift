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
  /// The id was not given, so the account names the app by its certificate's topic.
  var isNamedByTopic = false
  /// Where to write down what a next process must know; nil: nowhere.
  var journal: JournalPlan?
  /// Campaigns that have ended, but belong to the same account as the others.
  var ended: [(app: String, account: Account)] = []

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
    /// What the journal knows of it, when it is gone on with.
    var resumed: Resumed?
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
    var credential: Credential
    /// A client's, with the credential and the trust of the settings.
    var context: TLSContext
  }

  struct CampaignPart: Sendable {
    /// The id of an ``AppPart``.
    var app: String
    /// For everyone; with placeholders every entry brings its own.
    var payload: [UInt8]
    /// Seconds since 1970.
    var expiration: UInt32?
    var priority: UInt8?
    var audience: AudienceFile
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
  var campaigns: [CampaignPart]
  /// Findings that do not stop anything, one sentence each.
  var warnings: [String] = []
}

extension SendPlan {
  /// Reads credentials and opens token files. Nothing has been sent when this throws.
  ///
  /// - Parameter unixSeconds: now; expirations count from it, and certificates must be valid at it.
  func prepare(at unixSeconds: UInt32) throws -> PreparedSend {
    var prepared = PreparedSend(apps: [], campaigns: [])
    var names: [String: String] = [:]
    for settings in apps {
      let credential = try failing { try Credential.load(settings.credential, validAt: Int64(unixSeconds)) }
      let context = try failing { try TLSContext(client: TLSClientConfiguration(credential: credential, trust: settings.trust.map(Trust.file) ?? .system)) }
      var named = settings
      if isNamedByTopic, let topic = credential.inspection.topics.first { named.id = topic }
      names[settings.id] = named.id
      prepared.apps.append(PreparedSend.AppPart(settings: named, credential: credential, context: context))
      prepared.warnings += Self.warnings(about: credential.inspection, of: settings, at: Int64(unixSeconds))
    }
    for entry in entries {
      guard let settings = settings(entry.app) else { throw CommandFailure.usage("there is no app \"\(entry.app)\"") }
      let limit = settings.command.payloadLimitDefault
      prepared.warnings += try check(entry, command: settings.command)
      let audience = try open(entry, byteLimit: limit)
      prepared.campaigns.append(
        PreparedSend.CampaignPart(
          app: names[entry.app] ?? entry.app, payload: entry.template.columns.isEmpty ? entry.template.sample : [],
          expiration: entry.expiration?.unixSeconds(now: unixSeconds), priority: entry.priority, audience: audience,
          payloadCapacity: entry.template.columns.isEmpty ? 0 : AudienceChunk.defaultPayloadCapacity, tokens: entry.tokensName ?? entry.tokens,
          number: entry.resumed?.campaign.number, settledLines: entry.resumed?.settledLines))
    }
    return prepared
  }

  private func open(_ entry: Entry, byteLimit: Int) throws -> AudienceFile {
    do {
      return try AudienceFile(path: entry.tokens, from: entry.resumed?.mark) { header in
        entry.template.columns.isEmpty ? nil : try entry.template.renderer(for: header, byteLimit: byteLimit)
      }
    } catch let error as PayloadTemplateError {
      throw CommandFailure.usage("\(entry.payloadFile) with \(entry.tokens): \(error)")
    } catch {
      throw CommandFailure.describing(error)
    }
  }

  /// Throws what would be refused; returns what only looks wrong.
  private func check(_ entry: Entry, command: Command) throws -> [String] {
    let findings = Payload.check(entry.template.sample, for: .binary(command), priority: entry.priority)
    if let error = findings.first(where: { $0.severity == .error }) {
      let more = findings.count { $0.severity == .error } - 1
      let advice = more > 0 ? " (and \(more) more: carillon payload check \(entry.payloadFile))" : ""
      throw CommandFailure.usage("The payload \(entry.payloadFile) cannot be sent: \(error.sentence)\(advice)")
    }
    return findings.map { "\(entry.payloadFile): \($0.path): \($0.sentence)" }
  }

  private static func warnings(about certificate: CertificateInspection, of settings: AppSettings, at now: Int64) -> [String] {
    var warnings: [String] = []
    let days = certificate.daysLeft(at: now)
    if days < CredentialFinding.warningDays {
      warnings.append("The certificate \(settings.credential.certificate) expires in \(days) day\(days == 1 ? "" : "s"); request a new one.")
    }
    if let topic = settings.topic, !certificate.topics.isEmpty, !certificate.topics.contains(topic) {
      warnings.append(
        "The certificate \(settings.credential.certificate) is for \(certificate.topics.joined(separator: ", ")), not for \(topic) as the configuration says.")
    }
    return warnings
  }
}
