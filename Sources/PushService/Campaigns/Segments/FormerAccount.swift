internal import Carillon
internal import PushWire

extension CampaignAccount {
  /// What earlier processes of this node have settled of a segment.
  ///
  /// - Parameters:
  ///   - account: by the journal. It does not know that whoever is not sent to is unknown if an
  ///     earlier owner may have sent to them.
  ///   - rows: of the list on this machine's disk, which does.
  init(former account: CampaignAccount, rows: [String]) {
    self = account
    submitted = account.settled
    (resent, possibleDuplicates, possibleCopies) = (0, 0, 0)
    let kinds = rows.compactMap(Self.kind)
    let notSent: [(WritableKeyPath<CampaignAccount, Int>, Outcome.Kind)] = [
      (\.suppressed, .suppressed), (\.capped, .capped), (\.holdout, .holdout), (\.cancelled, .cancelled),
    ]
    for (count, kind) in notSent {
      let changed = max(0, self[keyPath: count] - kinds.count { $0 == kind })
      self[keyPath: count] -= changed
      unknown += changed
    }
  }

  /// The outcome in a row of the list; nil: its token has a comma, and is none.
  private static func kind(ofRow row: String) -> Outcome.Kind? {
    let fields = row.split(separator: ",", maxSplits: 3, omittingEmptySubsequences: false)
    return fields.count > 2 ? Outcome.Kind(rawValue: String(fields[2])) : nil
  }

  /// Adds those who were read and not sent to, because an earlier owner may have sent to them.
  ///
  /// - Parameters:
  ///   - isHeld: they are held, except for those who are sent to in no case; otherwise all are
  ///     unknown.
  ///   - rows: of the list, in which the exceptions are unknown.
  mutating func add(unsure count: Int, isHeld: Bool, rows: [String]) {
    let listedCount = rows.count { Self.kind(ofRow: $0) == .unknown } - unknown
    let unknownCount = isHeld ? min(count, max(0, listedCount)) : count
    submitted += count
    held += count - unknownCount
    unknown += unknownCount
  }
}
