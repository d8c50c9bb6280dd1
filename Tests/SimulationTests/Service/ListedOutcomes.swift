internal import PushSend
internal import PushStore
internal import PushWire

@testable internal import Carillon

/// What the list of all outcomes says, beside an account.
struct ListedOutcomes {
  private struct Key: Hashable {
    var origin: OutcomeGroup.Origin
    var line: UInt64
  }

  /// The outcomes of each notification: usually one. After a crash it can have others before the
  /// last one.
  private var states: [Key: [String]] = [:]
  private(set) var problems: [String] = []

  /// - Parameter audience: all tokens there are.
  init(_ groups: [OutcomeGroup], of audience: Set<TokenBytes>) {
    var tokens: [Key: TokenBytes] = [:]
    for group in groups {
      var reader = OutcomeEntries.Reader(group.entries)
      do {
        var count = 0
        while let entry = try reader.next() {
          count += 1
          let key = Key(origin: group.origin, line: entry.line)
          states[key, default: []].append(group.state)
          // A device that has left has none any more.
          guard let token = TokenBytes(bytes: entry.token) else { continue }
          if !audience.contains(token) { problems.append("\(token) is nobody's token") }
          if tokens.updateValue(token, forKey: key) ?? token != token {
            problems.append("line \(entry.line) has two tokens")
          }
        }
        if count != group.count { problems.append("a group of \(group.count) outcomes has \(count)") }
      } catch { problems.append("the outcomes of \(group.state) cannot be read") }
    }
    if Set(tokens.values).count != tokens.count { problems.append("two lines have the same token") }
  }

  /// Whether a notification that was taken in is listed.
  func has(_ id: StoredNotificationID) -> Bool {
    states[Key(origin: .run(id.run, isBridge: false), line: UInt64(id.line))] != nil
  }

  /// - Parameter leftCount: those who may have been left out of an audience that was then divided
  ///   again without them, because they had left.
  func problems(_ sum: CampaignAccount, leftCount: Int = 0) -> [String] {
    var problems = problems
    if !(sum.submitted...sum.submitted + leftCount).contains(states.count) {
      problems.append("\(states.count) of \(sum.submitted) stand in the list of outcomes")
    }
    let counts = [
      "accepted": sum.accepted, "rejected": sum.rejected, "suppressed": sum.suppressed,
      "capped": sum.capped, "holdout": sum.holdout, "expired": sum.expired, "held": sum.held,
    ]
    for (state, count) in counts.sorted(by: { $0.key < $1.key }) {
      let certain = states.values.count { $0.allSatisfy { $0 == state } }
      let possible = states.values.count { $0.contains(state) }
      if count < certain - (state == "suppressed" ? leftCount : 0) || count > possible {
        let others = states.values.filter { $0.contains(state) && Set($0).count > 1 }.prefix(3)
        problems.append("\(certain) to \(possible) are listed as \(state), counted \(count): \(others)")
      }
    }
    return problems
  }
}
