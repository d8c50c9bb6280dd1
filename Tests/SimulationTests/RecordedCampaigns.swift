internal import PushGateway
internal import PushJournal
internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization

@testable internal import PushEngine

/// Two apps with a campaign each, one of them with personal payloads, on a simulated network that
/// resets connections. One journal is on a disk that records every operation. A first process is
/// killed; a second one resumes and closes the journal.
struct RecordedCampaigns {
  let tokens: [[TokenBytes]]
  let operations: [RecordedDisk.Operation]

  static let apps = ["one", "two"]

  struct Problem: Error, CustomStringConvertible {
    var description: String
  }

  /// What a resumed campaign must know of a notification.
  struct Expected: Equatable {
    var token: [UInt8]
    /// Empty: the campaign's payload.
    var payload: [UInt8]
  }

  /// The notification of a line.
  func expected(_ campaign: Int, line: UInt64) -> Expected? {
    // The second audience has a header.
    let index = Int(line) - 1 - campaign
    guard tokens[campaign].indices.contains(index) else { return nil }
    let token = tokens[campaign][index]
    return Expected(token: token.bytes, payload: campaign == 1 ? PersonalAudience.payload(of: token) : [])
  }

  func entryCount(_ campaign: Int, through line: UInt64) -> Int {
    max(0, min(tokens[campaign].count, Int(line) - campaign))
  }

  init(seed: UInt64, counts: [Int], killAfter steps: Int, checkpointByteCount: Int) throws {
    var random = SeededGenerator(seed: seed)
    let tokens = counts.map { count in
      (0..<count).compactMap { index in TokenBytes(bytes: [UInt8(index)] + random.bytes(31)) }
    }
    self.tokens = tokens
    let disk = RecordedDisk()
    var rules = FaultRules()
    rules.common.answerDelay = .milliseconds(30)
    rules.common.refuse = [
      Faults.Refuse(Faults.Selection(tokens: Set(tokens.flatMap { $0.prefix(40).filter { $0.bytes[1] < 30 } })))
    ]
    let gateway = SimulatedGateway(rules: rules)
    try Self.live(seed: seed, tokens, gateway, disk, checkpointByteCount, stepLimit: steps)
    disk.disk.restart()
    try Self.live(seed: seed &+ 1, tokens, gateway, disk, checkpointByteCount, stepLimit: nil)
    operations = disk.operations
  }

  private final class Ended: Sendable {
    let count = Mutex(0)
    let isClosed = Mutex(false)
  }

  /// - Parameter stepLimit: The process is killed after this many steps; nil: it ends in order.
  private static func live(
    seed: UInt64, _ tokens: [[TokenBytes]], _ gateway: SimulatedGateway, _ disk: RecordedDisk,
    _ checkpointByteCount: Int, stepLimit: Int?
  ) throws {
    let loop = SimulatedLoop(seed: seed)
    let driver = JournalDriver(loop: loop)
    var options = EngineJournalOptions()
    options.checkpointByteCount = checkpointByteCount
    options.sync = .always
    let (journal, _) = try EngineJournal.open(disk, options: options, runByHand: { driver.poke() })
    driver.drive(journal)
    var network = NetworkFaults()
    network.resetPerMille = 30
    var configuration = AppRules(id: "one")
    configuration.batchByteCount = 600
    configuration.policy.ringBlockCount = 256
    configuration.connections = 1...2
    configuration.rateLimit = 300
    configuration.policy.quiet = .seconds(2)
    let apps = Self.apps.enumerated().map { index, name in
      configuration.id = name
      let dialer = SimulatedDialer(
        loop: loop, gateway: gateway, topic: name, faults: network, seed: seed &+ UInt64(index))
      return App(configuration: configuration, dialer: dialer, loops: [loop], seed: seed, journal: journal)
    }
    let servers = apps.map { app in Task(executorPreference: loop) { await app.run() } }
    defer { for server in servers { server.cancel() } }
    let ended = Ended()
    _ = Task(executorPreference: loop) {
      if journal.campaigns.isEmpty {
        let beginnings = Self.apps.enumerated().map { index, name in
          EngineJournal.Beginning(
            app: name, campaign: Campaign(payload: index == 0 ? Simulation.commonPayload : []), context: [UInt8(index)])
        }
        _ = try? await journal.begin(beginnings)
      }
      for campaign in journal.campaigns where campaign.phase == .open {
        let index = Int(campaign.context.first ?? 0)
        if index == 0 { try? journal.readTokens(of: campaign.number, LinesAudience.reading(tokens[0])) }
        let sent = Campaign(payload: journal.payload(of: campaign))
        guard let run = try? CampaignRun(sent, through: apps[index], journalled: campaign.number) else { continue }
        _ = Task(executorPreference: loop) {
          if index == 1, let audience = try? PersonalAudience(tokens[1], from: run.mark) {
            try? await run.run(audience, chunk: AudienceChunk(entryLimit: 12, payloadCapacity: 4_096))
          } else if let audience = try? LinesAudience(tokens[0], from: run.mark) {
            try? await run.run(audience, chunk: AudienceChunk(entryLimit: 20))
          }
          ended.count.withLock { $0 += 1 }
        }
      }
    }
    let ending = loop.run(limit: .seconds(3600), stepLimit: stepLimit ?? 1_000_000) {
      ended.count.withLock { $0 } == 2
        || stepLimit == nil && !journal.campaigns.isEmpty && journal.campaigns.allSatisfy { $0.phase == .ended }
    }
    guard stepLimit == nil else {
      guard ending == .outOfSteps else {
        throw Problem(description: "the first process was to be killed, but \(ending)")
      }
      // From here on the process writes to no disk.
      disk.disk.restart()
      journal.abandon()
      return
    }
    guard ending == .done else { throw Problem(description: "the second process did not end: \(ending)") }
    _ = Task(executorPreference: loop) {
      for app in apps { await app.shutDown() }
      try? await journal.close()
      ended.isClosed.withLock { $0 = true }
    }
    guard loop.run(limit: .seconds(3600), stepLimit: 1_000_000, until: { ended.isClosed.withLock { $0 } }) == .done
    else {
      throw Problem(description: "the journal was not closed")
    }
  }

  // MARK: What a next process finds

  struct Found: Hashable {
    struct Campaign: Hashable {
      var readLine: UInt64
      var account: Account
      var isEnded: Bool
      var lost: Int
      var open: [UInt64: RecoveredRun.Fate]
    }

    /// By index in `apps`.
    var campaigns: [Int: Campaign] = [:]
    var damage: [String] = []
    var isTorn = false
    var strayCount = 0
    /// Some tokens were in the token file only.
    var lackedTokens = false
  }

  /// Opens the disk in this state and checks that the contents are consistent.
  func open(_ contents: RecordedDisk.Contents, skipsDamage: Bool = false) throws -> Found {
    var options = EngineJournalOptions()
    options.skipsDamage = skipsDamage
    let (journal, report) = try EngineJournal.open(RecordedDisk.disk(contents), options: options, runByHand: {})
    var found = Found(damage: report.damage, isTorn: report.tornTail != nil, strayCount: report.strayCount)
    for state in report.campaigns {
      let campaign = state.campaign
      let index = Int(campaign.context.first ?? 0)
      guard campaign.app == Self.apps[index],
        journal.payload(of: campaign) == (index == 0 ? Simulation.commonPayload : [])
      else {
        throw Problem(description: "a campaign that was not begun")
      }
      if journal.lacksTokens(of: campaign.number) {
        found.lackedTokens = true
        try journal.readTokens(of: campaign.number, LinesAudience.reading(tokens[index]))
      }
      var open: [UInt64: RecoveredRun.Fate] = [:]
      for recovered in journal.recoveredRuns(of: campaign.number) {
        var problem: String?
        recovered.forEach { notification in
          let actual = unsafe Expected(token: Array(notification.token), payload: Array(notification.payload))
          if actual != expected(index, line: notification.line) {
            problem = "line \(notification.line) has another token or payload"
          }
          if open.updateValue(recovered.fate, forKey: notification.line) != nil {
            problem = "line \(notification.line) is open twice"
          }
          if notification.line > campaign.readLine { problem = "line \(notification.line) was never taken in" }
        }
        if let problem { throw Problem(description: problem) }
      }
      let account = campaign.account
      guard account.submitted == account.settled + open.count else {
        throw Problem(description: "\(account) with \(open.count) left")
      }
      guard state.unsettled == open.count, state.unsent == open.values.count(where: { $0 == .unsent }) else {
        throw Problem(description: "\(state)")
      }
      found.campaigns[index] = Found.Campaign(
        readLine: campaign.readLine, account: account, isEnded: campaign.phase == .ended, lost: state.lost, open: open)
    }
    return found
  }

  /// What is wrong with `next` as a later state than `previous`.
  func regress(from previous: Found, to next: Found) -> String? {
    for (index, before) in previous.campaigns {
      guard let after = next.campaigns[index] else {
        // A group is dropped when all of its campaigns have ended.
        if previous.campaigns.values.allSatisfy(\.isEnded) { continue }
        return "campaign \(index) is gone"
      }
      guard after.readLine >= before.readLine, after.account.submitted >= before.account.submitted else {
        return "campaign \(index) has been read less far than before"
      }
      let counts = [
        \Account.confirmed, \.quiet, \.rejectedTotal, \.expired, \.held, \.cancelled, \.unknown, \.resent,
        \.possibleDuplicates, \.possibleCopies,
      ]
      guard counts.allSatisfy({ before.account[keyPath: $0] <= after.account[keyPath: $0] }) else {
        return "\(after.account) after \(before.account)"
      }
      guard before.isEnded ? after.isEnded : true else { return "campaign \(index) is open after its end" }
      let reopened = after.open.keys.filter { $0 <= before.readLine && before.open[$0] == nil }
      guard reopened.isEmpty else { return "lines \(reopened) are open again" }
    }
    return nil
  }

  /// What the account of a journal with skipped damage does not report, compared with the same
  /// journal before the damage.
  func hidden(in found: Found, comparedWith whole: Found) -> [String] {
    var problems: [String] = []
    for (index, before) in whole.campaigns {
      guard let after = found.campaigns[index] else {
        // Its record is lost. It cannot be resumed, but that is reported.
        if found.strayCount < before.open.count {
          problems.append("campaign \(index) is gone, \(found.strayCount) of its notifications are reported")
        }
        continue
      }
      // Notifications that were taken in, are not open any more, and will not be read again.
      let missing = before.open.keys.filter { $0 <= after.readLine && after.open[$0] == nil }
      if missing.count > after.lost {
        problems.append("lines \(missing.sorted()) are gone, \(after.lost) are counted as lost")
      }
      for (line, fate) in after.open {
        if fate == .unsent, before.open[line] != .unsent {
          problems.append("line \(line) counts as unsent, but is \(before.open[line].map { "\($0)" } ?? "settled")")
        }
      }
      if after.account.unknown < after.lost { problems.append("\(after.lost) are lost, but not in \(after.account)") }
    }
    return problems
  }
}
