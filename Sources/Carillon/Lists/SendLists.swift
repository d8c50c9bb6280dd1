internal import PushEngine
internal import PushWire

/// The files that list notifications one by one.
struct SendLists: Sendable {
  /// What was not accepted.
  let outcomes: OutcomesFile?
  /// Devices that are gone.
  let gone: GoneFile?

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
    outcomes?.onFailure(handler)
    gone?.onFailure(handler)
  }

  /// Makes durable what was written since the last call.
  func sync() throws(UnsyncedList) {
    try outcomes?.sync()
    try gone?.sync()
  }

  /// Writes what waits. Returns a sentence for each that is not complete.
  func finish() -> [String] { [outcomes?.finish(), gone?.finish()].compactMap { $0 } }

  /// Whether ``onFailure(_:)`` has reported this sentence.
  func hasReported(_ failure: String) -> Bool { [outcomes?.failure, gone?.failure].contains(failure) }

  private struct CombinedListener: OutcomeListener {
    let gone: GoneFile
    let outcomes: (any OutcomeListener)?

    func notAccepted(line: UInt64, token: String, outcome: Outcome, goneSince: UInt64?) {
      if outcome.isGone { gone.append(token: token, since: goneSince) }
      outcomes?.notAccepted(line: line, token: token, outcome: outcome, goneSince: goneSince)
    }

    func flush() { outcomes?.flush() }
  }
}
