internal import Foundation
internal import PushGateway
internal import PushTransport
internal import PushWire
internal import Support
internal import Testing

/// Each test keeps several processes busy: those of one suite run one after the other.
@Suite("Campaigns with a journal")
enum JournalCampaigns {}

/// A folder with everything for `carillon send --journal` (configuration, payloads, token files)
/// and the gateway.
final class JournalSite: Sendable {
  static let topics = ["com.example.news", "com.example.chat"]
  static let apps = ["news", "chat"]

  /// The settings of every app in the configuration.
  struct Settings: Hashable, Sendable {
    var connections = 1
    /// Notifications per second; nil: no limit.
    var rate: Int?
    var onUnknown = "resend"
    /// Such as `2s`; nil: the default.
    var patience: String?
    /// The delay between a refused notification and the error response.
    var answerDelay = Duration.zero
  }

  let place: Workplace
  let settings: Settings
  let gateway: TestGateway
  let audiences: [TestAudience]

  /// Starts the gateway.
  ///
  /// - Parameter audiences: One entry of the campaign each, with its index in ``apps``.
  init(
    _ settings: Settings, audiences shapes: [(app: Int, shape: TestAudience.Shape)], using random: inout SeededGenerator
  ) async throws {
    place = try Workplace()
    self.settings = settings
    audiences = shapes.enumerated().map { index, entry in
      TestAudience(
        app: Self.apps[entry.app], topic: Self.topics[entry.app], index: index, shape: entry.shape, using: &random)
    }
    for audience in audiences {
      try place.write(audience.text, to: audience.file)
      try place.write(audience.payloadText, to: audience.payloadFile)
    }
    gateway = try TestGateway(in: place, topics: Self.topics, answerDelay: settings.answerDelay)
    try await gateway.start()
    let port = await gateway.port
    try place.write(Self.configuration(settings, port: port), to: "carillon.yaml")
    var unlimited = settings
    unlimited.rate = nil
    try place.write(Self.configuration(unlimited, port: port), to: "unlimited.yaml")
    try place.write(
      audiences.map { "- { app: \($0.app), payload: \($0.payloadFile), tokens: \($0.file) }\n" }.joined(),
      to: "campaign.yaml")
  }

  /// Probes say what was accepted. The quiet period is so long because the gateway, in the test's
  /// own process, may get no processor time for many seconds.
  private static func configuration(_ settings: Settings, port: Int) -> String {
    var text = "apps:\n"
    for (app, topic) in zip(apps, topics) {
      text += """
          - id: \(app)
            gateway: localhost:\(port)
            trust: certs/ca.pem
            credential: { certificate: certs/\(topic).pem, key: certs/\(topic).key }
            connections: { min: \(settings.connections), max: \(settings.connections) }
            on-unknown: \(settings.onUnknown)
            settle: { quiet: 5m }

        """
      if let patience = settings.patience { text += "    patience: \(patience)\n" }
      if let rate = settings.rate { text += "    rate-limit: \(rate)/s\n" }
    }
    return text
  }

  /// One campaign of `count` good tokens through one app.
  static func simple(_ settings: Settings = Settings(), count: Int, nameByteCount: Int = 0) async throws -> JournalSite
  {
    var random = SeededGenerator(seed: 1)
    let shape = TestAudience.Shape(count: count, isPersonal: nameByteCount > 0, nameByteCount: nameByteCount)
    return try await JournalSite(settings, audiences: [(0, shape)], using: &random)
  }

  // MARK: Commands

  static let journal = "journal"
  static let outcomes = "outcomes.csv"
  static func advice(_ sync: String = "interval") -> String {
    "carillon send --resume --journal journal\(sync == "interval" ? "" : " --sync \(sync)")"
  }

  /// The arguments that begin the campaign.
  func sendArguments(_ flags: [String] = []) -> [String] {
    let usual = ["send", "--config", "carillon.yaml", "--journal", Self.journal, "--outcomes", Self.outcomes, "--json"]
    guard audiences.count > 1 else {
      return usual + ["--app", audiences[0].app, "--payload", audiences[0].payloadFile, "--tokens", audiences[0].file]
        + flags
    }
    return usual + ["--campaign", "campaign.yaml"] + flags
  }

  /// The arguments that resume the campaign.
  static let resumeArguments = ["send", "--resume", "--journal", journal, "--json"]

  /// The same without the rate limit, so that a slow campaign ends soon.
  static let fastResumeArguments = resumeArguments + ["--config", "unlimited.yaml"]

  func start(_ arguments: [String], redirection: String = "", preparation: String = "exec") throws -> ChildProcess {
    try ChildProcess(arguments, directory: place.url, redirection: redirection, preparation: preparation)
  }

  func run(_ arguments: [String], redirection: String = "", preparation: String = "exec") async throws -> Ending {
    let ending = await (try start(arguments, redirection: redirection, preparation: preparation)).ending()
    #expect(!ending.hasForeignLines, "\(ending)")
    return ending
  }

  func send(_ flags: [String] = [], redirection: String = "", preparation: String = "exec") async throws -> Ending {
    try await run(sendArguments(flags), redirection: redirection, preparation: preparation)
  }

  func resume(_ flags: [String] = [], redirection: String = "") async throws -> Ending {
    try await run(Self.fastResumeArguments + flags, redirection: redirection)
  }

  /// Runs a subcommand of `carillon journal`.
  func journal(_ command: String, _ flags: [String] = []) async throws -> Ending {
    try await run(["journal", command, Self.journal] + flags)
  }

  /// Begins the campaign, and kills the process when this many notifications have arrived. False:
  /// it ended before.
  func sendAndKill(after count: Int, _ flags: [String] = []) async throws -> Bool {
    try await run(sendArguments(flags), andKillAfter: count)
  }

  /// Resumes it, and kills the process when this many more have arrived.
  func resumeAndKill(after count: Int, _ flags: [String] = []) async throws -> Bool {
    try await run(Self.resumeArguments + flags, andKillAfter: count)
  }

  /// Meanwhile the gateway reads only a limited number on each connection, so a larger campaign
  /// cannot end before the kill.
  private func run(_ arguments: [String], andKillAfter count: Int) async throws -> Bool {
    await gateway.stop()
    try await gateway.start(readingUpTo: count)
    let arrived = await gateway.acceptedCount
    let child = try start(arguments)
    try await waitForArrivals(arrived + count, or: child)
    child.send(SIGKILL)
    let isKilled = await child.ending().status == 128 + SIGKILL
    await gateway.stop()
    try await gateway.start()
    return isKilled
  }

  /// Returns when this many have arrived, or the child has ended.
  func waitForArrivals(_ count: Int, or child: ChildProcess) async throws {
    try await waitUntil("\(count) notifications have arrived") {
      if child.hasEnded { return true }
      return await gateway.acceptedCount >= count
    }
  }

  /// Segments of the journal, in order.
  var segments: [URL] {
    let files =
      (try? FileManager.default.contentsOfDirectory(
        at: place.url.appending(path: Self.journal), includingPropertiesForKeys: nil)) ?? []
    return files.filter { $0.pathExtension == "lz4" }.sorted { $0.lastPathComponent < $1.lastPathComponent }
  }

  // MARK: Truth

  /// The truth of the campaign whose final account was printed. Stops the gateway first, so that
  /// nothing is in flight.
  func truth(_ ending: Ending) async throws -> CampaignTruth {
    await gateway.stop()
    return try truthSoFar(ending, isWhole: true)
  }

  /// The truth of a campaign that was stopped and had no notifications in flight at its end.
  func truthSoFar(_ ending: Ending, isWhole: Bool = false) throws -> CampaignTruth {
    guard let account = SentAccount(ending) else { throw Unexpected(what: "there is no account: \(ending)") }
    let listed = try place.read(Self.outcomes)
    guard let rows = OutcomeRow.parse(listed) else {
      throw Unexpected(what: "no list of outcomes, after \(ending): \(listed.suffix(300))")
    }
    return CampaignTruth(
      audiences: audiences, onUnknown: settings.onUnknown, account: account, rows: rows, frames: gateway.memory.frames,
      isWhole: isWhole)
  }
}

struct Unexpected: Error {
  let what: String
}

extension Ending {
  /// Whether standard error has lines that are neither the command's messages nor progress.
  var hasForeignLines: Bool {
    errors.split(separator: "\n").contains { line in
      // The account is on standard error when standard output cannot be written.
      !line.hasPrefix("carillon: ") && !line.contains(" settled, ") && !line.contains(": waiting, ")
        && !line.hasPrefix("{\"apps\":")
    }
  }
}
