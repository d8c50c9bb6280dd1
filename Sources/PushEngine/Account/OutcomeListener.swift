package import PushWire

/// Hears of every notification that was not accepted, one by one. Accepted ones are only counted,
/// unless ``hearsOfAccepted`` says otherwise.
///
/// Called from the lanes' loops and from the campaign's reader, several at once: implementations synchronise themselves and return soon.
package protocol OutcomeListener: Sendable {
  /// - Parameters:
  ///   - line: where the notification came from in the campaign's audience, from 1.
  ///   - token: in hex; for a malformed token the text as it stood there.
  ///   - goneSince: of a device that no longer has the app (410), when the service last found that: milliseconds since 1970, as it says so itself.
  func notAccepted(line: UInt64, token: String, outcome: Outcome, goneSince: UInt64?)

  /// Whether ``accepted(lines:_:)`` is called. Asked once per campaign. Default false, which costs
  /// nothing per notification.
  var hearsOfAccepted: Bool { get }

  /// - Parameter lines: of the notifications that were accepted together.
  func accepted(lines: [UInt64], _ confirmation: Confirmation)

  /// What was told so far must survive the end of the process: the journal is about to say that it is settled. Called where there is a journal.
  func flush()
}

extension OutcomeListener {
  package func flush() {}

  package var hearsOfAccepted: Bool { false }

  package func accepted(lines: [UInt64], _ confirmation: Confirmation) {}

  package func notAccepted(line: UInt64, token: String, outcome: Outcome) {
    notAccepted(line: line, token: token, outcome: outcome, goneSince: nil)
  }
}
