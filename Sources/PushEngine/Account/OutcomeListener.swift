package import PushWire

/// Hears of every notification that was not accepted, one by one. Accepted ones are only counted.
///
/// Called from the lanes' loops and from the campaign's reader, several at once: implementations synchronise themselves and return soon.
package protocol OutcomeListener: Sendable {
  /// - Parameters:
  ///   - line: where the notification came from in the campaign's audience, from 1.
  ///   - token: in hex; for a malformed token the text as it stood there.
  func notAccepted(line: UInt64, token: String, outcome: Outcome)

  /// What was told so far must survive the end of the process: the journal is about to say that it is settled. Called where there is a journal.
  func flush()
}

extension OutcomeListener {
  package func flush() {}
}
