package import PushWire

/// Gets the outcome of every notification that was not accepted. Accepted ones are only counted,
/// unless ``wantsAccepted`` is true.
///
/// Called from the lanes' loops and from the campaign's reader, also at the same time.
/// Implementations must synchronise themselves and return soon.
package protocol OutcomeListener: Sendable {
  /// - Parameters:
  ///   - line: The notification's line in the campaign's audience, from 1.
  ///   - token: In hexadecimal digits. For a malformed token, the text in its place.
  ///   - goneSince: For a device that no longer has the app (410): when the service last found
  ///     that, in milliseconds since 1970.
  ///   - isDoubted: Another copy of it may have been sent.
  func notAccepted(line: UInt64, token: String, outcome: Outcome, goneSince: UInt64?, isDoubted: Bool)

  /// The reader passed over a notification: its outcome must survive before the journal knows that
  /// it was read. By default the same as for any other.
  func passedOver(line: UInt64, token: String, outcome: Outcome)

  /// Whether notifications of a campaign that was stopped and can be resumed are reported as
  /// cancelled. Default true.
  var listsResumable: Bool { get }

  /// Whether ``accepted(_:_:)`` is called. Read once for each campaign. Default false, which
  /// costs nothing per notification.
  var wantsAccepted: Bool { get }

  /// - Parameter entries: Notifications that were accepted together.
  func accepted(_ entries: OutcomeEntries, _ confirmation: Confirmation)

  /// Lines of notifications that may have arrived and are sent again, so that one more copy of each
  /// may arrive. Called before that, if ``wantsAccepted`` is true.
  func doubted(lines: [UInt64])

  /// What was reported so far must survive the end of the process, because the journal is about to
  /// record it as settled. Called only with a journal.
  func flush()

  /// The campaign has its final account, and the journal is about to record that. Called only with
  /// a journal, and not when the campaign can be resumed.
  func ended(_ account: Account)
}

extension OutcomeListener {
  package func flush() {}

  package var listsResumable: Bool { true }

  package func ended(_ account: Account) {}

  package var wantsAccepted: Bool { false }

  package func accepted(_ entries: OutcomeEntries, _ confirmation: Confirmation) {}

  package func doubted(lines: [UInt64]) {}

  package func notAccepted(line: UInt64, token: String, outcome: Outcome) {
    notAccepted(line: line, token: token, outcome: outcome, goneSince: nil, isDoubted: false)
  }

  package func passedOver(line: UInt64, token: String, outcome: Outcome) {
    notAccepted(line: line, token: token, outcome: outcome)
  }
}
