internal import Carillon
internal import PushEngine
internal import PushWire

/// The files that list notifications one by one.
struct SendLists: Sendable {
  let outcomes: OutcomesFile?
  let gone: GoneFile?

  /// Opens them. Those of a resumed send get the rows that they lack.
  ///
  /// - Parameter notice: is called with sentences that a person should read.
  init(_ send: Send, _ opened: SendJournal?, _ notice: (String) -> Void) throws {
    let plan = send.plan
    var devices: [GoneDevice] = []
    outcomes = try plan.outcomes.map { path in
      let columns = OutcomesColumns(
        namesSource: send.parts.count + plan.ended.count > 1, namesTime: plan.apps.contains(where: \.transport.isHTTP2))
      guard plan.isResumed, let opened else { return try OutcomesFile(path: path, columns: columns) }
      return try Self.restored(path, columns, send, opened, &devices, notice)
    }
    gone = try plan.gone.map { path throws(CarillonError) in try GoneFile(path: path) }
    guard plan.isResumed, let gone, let opened else { return }
    let sentence = try gone.restore(
      Self.sources(send, opened), listed: devices, begunAt: UInt64(plan.begunAt ?? 0), directory: opened.directory)
    if let sentence { notice(sentence) }
  }

  /// - Parameter devices: gets those that the list calls gone.
  private static func restored(
    _ path: String, _ columns: OutcomesColumns, _ send: Send, _ opened: SendJournal, _ devices: inout [GoneDevice],
    _ notice: (String) -> Void
  ) throws -> OutcomesFile {
    let sources = sources(send, opened)
    let history = try OutcomesHistory(
      path: path, columns: columns,
      sources: sources.map { OutcomesHistory.Source(app: $0.app, tokens: $0.tokens, settled: $0.settled) })
    let file = try OutcomesFile(replacing: path, columns: columns, rows: history.rows)
    var restoration = OutcomesRestoration(file: file, path: path, directory: opened.directory)
    devices = history.listed.flatMap(\.gone)
    for (source, listed) in zip(sources, history.listed) {
      try restoration.restore(source, listed: listed) {
        guard let index = send.parts.firstIndex(where: { $0.planned.number == source.number }) else { return nil }
        let part = send.parts[index]
        guard case .file(let file) = try send.plan.entries[index].source(part.planned, from: nil) else { return nil }
        return (file, AudienceChunk(payloadCapacity: part.planned.payloadCapacity))
      }
    }
    if let sentence = restoration.sentence {
      notice(sentence)
      // The journal may drop the records that these rows come from at any time, so they are made
      // durable now. A failure is reported when the list is finished.
      _ = file.finish()
      try? file.sync()
    }
    return file
  }

  /// Every campaign that the lists are about, as the journal knew it.
  private static func sources(_ send: Send, _ opened: SendJournal) -> [OutcomesRestoration.Source] {
    zip(send.plan.entries, send.parts).compactMap { entry, part in
      entry.resumed.map { opened.source($0.campaign, part.app, part.tokens, part.settledLines) }
    } + send.plan.ended.map { opened.source($0.campaign, $0.app, $0.tokens, nil) }
  }

  /// What hears of one campaign; nil where nothing is listed.
  ///
  /// - Parameter channel: instead of a token, for a broadcast.
  func listener(app: String, tokens: String, channel: String?) -> (any OutcomeListener)? {
    let outcomes = outcomes?.listener(app: app, tokens: tokens, channel: channel)
    guard let gone, channel == nil else { return outcomes }
    return CombinedListener(gone: gone, outcomes: outcomes)
  }

  /// Calls `handler` with a sentence when one of them can no longer be written, from any thread.
  func onFailure(_ handler: @escaping @Sendable (String) -> Void) {
    outcomes?.failure.onFailure(handler)
    gone?.failure.onFailure(handler)
  }

  func sync() throws(UnsyncedList) {
    try outcomes?.sync()
    try gone?.sync()
  }

  /// Writes what waits. Returns a sentence for each that is not complete.
  func finish() -> [String] { [outcomes?.finish(), gone?.finish()].compactMap { $0 } }

  /// Whether ``onFailure(_:)`` has reported this sentence.
  func hasReported(_ failure: String) -> Bool {
    [outcomes?.failure.sentence, gone?.failure.sentence].contains(failure)
  }

  private struct CombinedListener: OutcomeListener {
    let gone: GoneFile
    let outcomes: (any OutcomeListener)?

    func notAccepted(line: UInt64, token: String, outcome: Outcome, goneSince: UInt64?, isDoubted: Bool) {
      if outcome.isGone { gone.append(token: token, since: goneSince) }
      outcomes?.notAccepted(line: line, token: token, outcome: outcome, goneSince: goneSince, isDoubted: isDoubted)
    }

    func flush() { outcomes?.flush() }
  }
}
