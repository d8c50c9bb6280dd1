internal import Carillon
internal import PushEngine
internal import PushWire

/// Finds out which rows of a resumed campaign its list of outcomes has lost, and writes them again
/// where the notification is still known.
///
/// A row is durable before the journal says that its notification is settled. Rows are missing if
/// the list itself was lost, cut or replaced by an older one, or after a loss of power with `--sync
/// never`.
struct OutcomesRestoration {
  struct Source {
    var app: String
    var tokens: String
    /// Its number in the journal.
    var number: UInt64
    /// What the journal knew of it when it was opened.
    var account: Account
    /// Notifications that damage has taken from the journal: counted as unknown, never listed.
    var lost = 0
    /// The last line that was taken in or rejected.
    var readLine: UInt64
    /// Lines that are settled by the journal; nil: all.
    var settled: SettledLines?
    /// Nil: not known.
    var file: CampaignTokenFile?
  }

  let file: OutcomesFile
  let path: String
  /// The journal's.
  let directory: String
  private var missing: [Outcome.Kind: Int] = [:]
  private var restoredCount = 0

  init(file: OutcomesFile, path: String, directory: String) {
    (self.file, self.path, self.directory) = (file, path, directory)
  }

  /// Restores what one campaign lacks.
  ///
  /// - Parameters:
  ///   - listed: what the list holds of it.
  ///   - audience: reads its token file from the beginning, for lines that were rejected unsent;
  ///     nil where that is not possible.
  mutating func restore(
    _ source: Source, listed: OutcomesHistory.Listed, audience: () throws -> (any AudienceSource, AudienceChunk)?
  ) throws {
    var listed = listed
    guard !source.missing(listed).isEmpty else { return }
    let listener = file.listener(app: source.app, tokens: source.tokens)
    func restore(_ line: UInt64, _ token: String, _ outcome: Outcome) {
      guard source.settled?.contains(line) ?? true, listed.lines.insert(line).inserted else { return }
      listener.notAccepted(line: line, token: token, outcome: outcome)
      listed.counts[outcome.kind, default: 0] += 1
      restoredCount += 1
    }
    for known in try source.settledInJournal(directory) {
      restore(known.line, known.token, known.outcome)
    }
    let mayBeOfFile = Rejection.atIntake.contains { source.account.rejected[$0] != nil }
    if mayBeOfFile, source.missing(listed)[.rejected] != nil, let (audience, chunk) = try audience() {
      Self.forEachRejection(of: audience, chunk, through: source.readLine) { line, token, reason in
        restore(line, token, .rejected(reason))
      }
    }
    missing.merge(source.missing(listed), uniquingKeysWith: +)
  }

  /// Calls `body` with every line that cannot be sent.
  private static func forEachRejection(
    of audience: some AudienceSource, _ chunk: AudienceChunk, through last: UInt64,
    _ body: (UInt64, String, Rejection) -> Void
  ) {
    while let supply = try? audience.fill(chunk), supply != .end {
      for index in 0..<chunk.count {
        let entry = chunk[index]
        guard entry.line <= last else { return }
        if let reason = entry.kind.rejection { body(entry.line, chunk.text(of: entry), reason) }
      }
    }
  }

  /// A notice, as a sentence; nil if nothing is missing in the list.
  var sentence: String? {
    let missingCount = missing.values.reduce(0, +)
    guard restoredCount + missingCount > 0 else { return nil }
    var text =
      "\(path) lacked \(Self.rows(restoredCount + missingCount)) of notifications that the journal counts as settled"
    if restoredCount > 0 { text += "; \(Self.rows(restoredCount)) \(restoredCount == 1 ? "is" : "are") written again" }
    guard missingCount > 0 else { return text }
    let kinds = missing.sorted { $0.key.rawValue < $1.key.rawValue }.map { "\($0.value) \($0.key.rawValue)" }
      .joined(separator: ", ")
    return text + "; \(missingCount) cannot be, as the journal no longer holds their tokens (\(kinds))"
  }

  private static func rows(_ count: Int) -> String { "\(count) row\(count == 1 ? "" : "s")" }
}

extension OutcomesRestoration.Source {
  /// What was settled without being accepted, as far as the journal in this directory still has it
  /// and its tokens are known.
  func settledInJournal(_ directory: String) throws(CarillonError) -> [SettledNotification] {
    // Opened when the first token is needed.
    var opened: AudienceFile?
    return try describingErrors {
      try EngineJournal.settled(of: number, directory: directory) { (offset, count) throws(AudienceError) in
        guard let tokens = opened ?? (try? file?.open(isCompared: false)) else {
          throw AudienceError(path: file?.path, problem: .noTokens(at: offset))
        }
        opened = tokens
        return try tokens.tokens(at: offset, count: count)
      }
    }
  }

  /// By outcome, how many rows the list has too few.
  func missing(_ listed: OutcomesHistory.Listed) -> [Outcome.Kind: Int] {
    let expected: [Outcome.Kind: Int] = [
      .rejected: account.rejectedTotal, .suppressed: account.suppressed, .capped: account.capped,
      .holdout: account.holdout, .expired: account.expired, .held: account.held, .cancelled: account.cancelled,
      .unknown: account.unknown - lost,
    ]
    return expected.reduce(into: [:]) { missing, entry in
      let count = entry.value - (listed.counts[entry.key] ?? 0)
      if count > 0 { missing[entry.key] = count }
    }
  }
}
