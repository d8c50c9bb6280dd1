internal import Carillon
internal import Foundation
internal import PushEngine
internal import PushStore
internal import PushStoreSQLite
internal import PushTransport
internal import PushWire

/// What `carillon serve` would do with a configuration, found without changing anything.
package struct ServeCheck: Sendable {
  /// A subject, such as `app news`, and a sentence about it.
  package struct Finding: Hashable, Sendable {
    package var subject: String
    package var text: String
  }

  package internal(set) var facts: [Finding] = []
  /// What should be looked at, though the service starts.
  package internal(set) var warnings: [Finding] = []
  /// Why apps would begin suspended, or without a client of the bridge, though the service starts.
  package internal(set) var errors: [Finding] = []
  /// The disk has no room at present.
  private var isWaiting = false
  /// Why the service would not start.
  package internal(set) var problems: [Finding] = []

  /// - Parameters:
  ///   - unixSeconds: now; certificates must be valid at it.
  ///   - environment: of the process, which the service does not follow.
  ///   - answers: whether a service answers at the address of its admin listener.
  package static func run(
    _ configuration: ServerConfiguration, file: String, at unixSeconds: UInt32, environment: [String: String],
    answers: (Listen) async -> Bool
  ) async -> ServeCheck {
    var check = ServeCheck()
    let now = Int64(unixSeconds)
    for tenant in configuration.tenants { check.add(tenant, now) }
    check.addProxy(configuration.tenants, environment: environment)
    check.add(configuration.journal)
    check.add(configuration.store, besides: file, now)
    check.add(configuration.api, now)
    if let bridge = configuration.bridge { check.add(bridge, configuration.tenants, now) }
    check.addFact("admin", "health and metrics at http://\(configuration.admin.listen)")
    check.addLimits(configuration)
    await check.addRoom(configuration.folders(besides: file).map(DiskState.nearest))
    await check.addPorts(configuration, answers)
    return check
  }

  mutating func addFact(_ subject: String, _ text: String) { facts.append(Finding(subject: subject, text: text)) }
  mutating func addWarning(_ subject: String, _ text: String) { warnings.append(Finding(subject: subject, text: text)) }
  mutating func addError(_ subject: String, _ text: String) { errors.append(Finding(subject: subject, text: text)) }
  mutating func addProblem(_ subject: String, _ text: String) { problems.append(Finding(subject: subject, text: text)) }

  // MARK: Apps

  private mutating func add(_ tenant: Tenant, _ now: Int64) {
    let app = tenant.app
    let subject = "app \(app.id)"
    do throws(CarillonError) {
      try app.check()
      let credential = try ResolvedCredential.resolve(app, registry: ProviderTokenRegistry(), validAt: now)
      var parts = [
        "\(app.transport.isHTTP2 ? "HTTP/2" : "the binary protocol") to \(app.gatewayOrDefault)",
        app.connections.count == 1
          ? NumberText.count(app.connections.lowerBound, "connection")
          : "\(app.connections.lowerBound) to \(app.connections.upperBound) connections",
      ]
      if let topic = app.topic { parts.insert("topic \(topic)", at: 1) }
      if let key = app.credential.settings.keyIdentifier { parts.append("token key \(key)") }
      if let rate = app.rateLimit { parts.append("at most \(rate.formatted()) notifications/s") }
      parts.append("a queue of \(Quantity.describe(byteCount: tenant.queueByteCount))")
      addFact(subject, parts.joined(separator: ", "))
      facts += tenant.checkedSentences.map { Finding(subject: subject, text: $0) }
      if let certificate = credential.certificate { add(certificate, subject, now) }
      if let webhook = tenant.webhook { add(webhook, subject) }
    } catch  where error.code == .credential {
      addError(subject, "it would begin suspended, and the others work: \(error.message)")
    } catch {
      addProblem(subject, error.message)
    }
  }

  mutating func add(_ certificate: CertificateInspection, _ subject: String, _ now: Int64) {
    let end = certificate.validity.upperBound
    let finding = Finding(subject: subject, text: "its certificate is valid until \(CivilTime.describe(end))")
    if certificate.daysLeft(at: now) < CredentialFinding.warningDays {
      warnings.append(finding)
    } else {
      facts.append(finding)
    }
  }

  private mutating func add(_ webhook: Webhook, _ subject: String) {
    let receiver = webhook.previousSecretFile == nil ? "\(webhook)" : "\(webhook), signed with two secrets"
    addFact(
      subject, "its outcomes are delivered to \(receiver)\(webhook.isPrivate ? ", also in a private network" : "")")
    do throws(CredentialError) {
      _ = try webhook.secrets()
      _ = try webhook.context()
    } catch {
      addError(subject, "no outcome would be delivered, and everything else works: \(error)")
    }
  }

  // MARK: Files

  private mutating func add(_ journal: JournalConfiguration) {
    guard let directory = journal.directory else { return }
    let sync = journal.sync == .interval ? "every \(Quantity.describe(journal.interval))" : journal.sync.rawValue
    guard EngineJournal.exists(directory: directory) else {
      return addPlace("journal", directory, made: "is made at the first start, synced: \(sync)")
    }
    do throws(JournalProblem) {
      let report = try EngineJournal.inspect(directory: directory)
      if let damage = report.damage.first {
        addProblem("journal", "\(directory) cannot be used: \(damage); see \"carillon journal verify\"")
      }
      let open = report.unfinished
      let count = open.reduce(0) { $0 + $1.unsettled }
      addFact(
        "journal",
        "\(directory), synced: \(sync); "
          + (count == 0 ? "nothing is unsettled" : "\(count) notifications are unsettled and would be resumed"))
      addPlace("journal", directory, made: "")
    } catch {
      addProblem("journal", "\(error)")
    }
  }

  private mutating func add(_ store: StoreConfiguration, besides file: String, _ now: Int64) {
    guard let path = store.path(besides: file) else {
      guard case .postgreSQL(let settings) = store else { return }
      addFact(
        "cluster",
        "this node is called \(settings.node), and others take its place when it was silent for "
          + Quantity.describe(settings.lease))
      return add(settings, now)
    }
    guard FileManager.default.fileExists(atPath: path) else {
      return addPlace("store", path, made: "is made at the first start")
    }
    do throws(StoreError) {
      let pending = try StoreFile(path: path).pendingMigrations()
      addFact(
        "store",
        pending.isEmpty
          ? "\(path), up to date" : "\(path), would be brought up to date: \(pending.joined(separator: "; "))")
      addPlace("store", path, made: "")
    } catch {
      addProblem("store", error.description)
    }
  }

  private mutating func add(_ settings: PostgreSQLSettings, _ now: Int64) {
    do throws(StoreError) {
      let report = try StoreConfiguration.report(on: settings, at: now)
      for fact in report.facts { addFact("store", fact) }
      for warning in report.warnings { addWarning("store", warning) }
      for problem in report.problems { addProblem("store", problem) }
    } catch {
      addProblem("store", error.description)
    }
  }

  /// Whether a file or folder can be written, or made.
  private mutating func addPlace(_ subject: String, _ path: String, made: String) {
    let files = FileManager.default
    if files.fileExists(atPath: path) {
      if !files.isWritableFile(atPath: path) {
        addProblem(subject, "\(path) cannot be written; check its owner and its mode")
      } else if !made.isEmpty {
        addFact(subject, "\(path) \(made)")
      }
      return
    }
    let folder = URL(filePath: path).deletingLastPathComponent().path
    if files.isWritableFile(atPath: folder) {
      addFact(subject, "\(path) \(made)")
    } else {
      addProblem(subject, "\(path) cannot be made: \(folder) is missing or cannot be written")
    }
  }

  /// What the service would wait for. A start does not fail because of it.
  private mutating func addRoom(_ folders: [String]) async {
    for folder in Set(folders).sorted() {
      let state = await DiskState.all([folder])
      guard case .waiting = state, let reason = state.reason(folder) else { continue }
      isWaiting = true
      addError("disk", "\(reason); the service would wait until it can")
    }
  }

  // MARK: Listening

  private mutating func add(_ api: ServerConfiguration.API, _ now: Int64) {
    guard let files = api.certificate else {
      return addFact("api", "http://\(api.listen), for this machine only, without TLS")
    }
    do throws(CarillonError) {
      let (_, certificate) = try ServerCertificate.read(files, at: now)
      addFact("api", "https://\(api.listen), for \(certificate.serverNames.joined(separator: ", "))")
      add(certificate, "api", now)
    } catch {
      addProblem("api", error.message)
    }
  }

  private mutating func addPorts(_ configuration: ServerConfiguration, _ answers: (Listen) async -> Bool) async {
    // Only one that holds this journal is the one that this would replace.
    let isLocked = DiskState.isLocked(journal: configuration.journal.directory ?? ".")
    var isRunning = false
    if isLocked { isRunning = await answers(configuration.admin.listen) }
    if isLocked, !isRunning { addProblem("journal", "it is in use by another process; end that one first") }
    for (subject, key, listen) in configuration.listeners {
      guard let failure = await ListenFailure.probe(key, listen) else { continue }
      if isRunning {
        addFact(subject, "\(listen) is in use by a running service")
      } else {
        addProblem(subject, "cannot listen on \(listen): \(failure.reason)")
      }
    }
  }

  // MARK: Text

  /// For people: facts, then warnings, errors and problems, each marked.
  package var lines: [String] {
    facts.map { "\($0.subject): \($0.text.asSentence)" }
      + warnings.map { "warning: \($0.subject): \($0.text.asSentence)" }
      + errors.map { "error: \($0.subject): \($0.text.asSentence)" }
      + problems.map { "problem: \($0.subject): \($0.text.asSentence)" } + [verdict]
  }

  private var verdict: String {
    guard problems.isEmpty else { return "The service would not start like this." }
    if isWaiting { return "The service would wait until its disk can be written." }
    let count = Set(errors.map(\.subject)).count
    switch count {
    case 0: return "The service would start."
    case 1: return "The service would start, but one app has an error."
    default: return "The service would start, but \(NumberText.grouped(count)) apps have errors."
    }
  }

  package var json: String {
    return JSONWriter.text { json in
      for (name, findings) in [
        ("facts", facts), ("warnings", warnings), ("errors", errors), ("problems", problems),
      ] {
        json.array(name, findings) { finding, json in
          json.field("subject", finding.subject)
          json.field("text", finding.text)
        }
      }
    }
  }
}
