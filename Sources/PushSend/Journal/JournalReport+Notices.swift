package import PushEngine
internal import PushWire

extension JournalReport {
  /// What a half-written end may mean. The journal cannot know who cut it. What a killed process or
  /// a loss of power leaves half written was never acknowledged.
  package var tornTailNotice: String? {
    guard let tornTail else { return nil }
    let unsent = unfinished.map(\.unsent).reduce(0, +)
    let doubted =
      unsent > 0
      ? "the \(NumberText.grouped(unsent)) notifications that count as unsent, and what was "
        + "not taken in," : "what was not taken in"
    let doubt = unfinished.isEmpty ? "what it says may be older than what was sent" : "\(doubted) may have been sent"
    return "\(tornTail); they are cut off when it is opened. A kill or a loss of power loses nothing with them that "
      + "was sent, unless it was written with the sync setting never; if anything else has cut the file, \(doubt)"
  }

  package var strayNotice: String {
    "\(NumberText.grouped(strayCount)) notifications without an outcome belong to campaigns whose own records are "
      + "lost: they cannot be resumed, and are in no account"
  }
}
