package import PushEngine
package import PushWire
internal import Synchronization

/// The assertion of every end-to-end test: the account equals the gateway's ground truth.
package struct AccountCheck {
  /// Distinct tokens, with one notification each.
  package var tokens: [TokenBytes]
  package var account: Account
  /// The outcomes of those that were not accepted.
  package var outcomes: [TokenBytes: Outcome]
  /// How often the gateway accepted each token.
  package var arrivals: [TokenBytes: Int]
  /// Whether the gateway refuses a token with a status.
  package var refused: (TokenBytes) -> Bool = { _ in false }
  /// Whether the gateway closes the connection on a token without an error response.
  package var kills: (TokenBytes) -> Bool = { _ in false }
  /// The campaign was stopped, so not everything was submitted.
  package var isPartial = false

  package init(tokens: [TokenBytes], account: Account, outcomes: [TokenBytes: Outcome], arrivals: [TokenBytes: Int]) {
    self.tokens = tokens
    self.account = account
    self.outcomes = outcomes
    self.arrivals = arrivals
  }

  /// What is wrong, in sentences; empty when the account is exact.
  package func problems() -> [String] {
    var problems: [String] = []
    if account.inFlight != 0 { problems.append("\(account.inFlight) notifications have no outcome") }
    if !isPartial, account.submitted != tokens.count {
      problems.append("\(account.submitted) submitted of \(tokens.count)")
    }
    if account.submitted - account.accepted != outcomes.count {
      problems.append("\(outcomes.count) outcomes listed, \(account.submitted - account.accepted) counted")
    }
    var missing = 0
    var duplicates = 0
    var copies = 0
    for token in tokens {
      let count = arrivals[token] ?? 0
      if count > 1 { duplicates += 1 }
      copies += max(0, count - 1)
      if let outcome = outcomes[token] {
        if let problem = problem(with: outcome, arrivals: count, token: token) {
          problems.append("\(token) \(problem)")
        }
      } else if count == 0 {
        // Counted as accepted, or never submitted.
        missing += 1
      }
    }
    let lost = missing - (tokens.count - account.submitted)
    if lost != 0 { problems.append("\(lost) notifications are counted as accepted but did not arrive") }
    if duplicates > account.possibleDuplicates {
      problems.append("\(duplicates) arrived twice, \(account.possibleDuplicates) listed as possible duplicates")
    }
    if copies > account.possibleCopies {
      problems.append("\(copies) copies arrived, \(account.possibleCopies) listed as possible")
    }
    return problems
  }

  private func problem(with outcome: Outcome, arrivals: Int, token: TokenBytes) -> String? {
    switch outcome {
    case .rejected(.status), .rejected(.provider), .rejected(.gaveUp), .rejected(.streamRefused):
      refused(token) ? nil : "is counted as refused (\(outcome)), but the gateway does not refuse it"
    case .rejected(.closedWithoutReason): kills(token) ? nil : "is rejected as poison, but is harmless"
    case .cancelled, .expired: arrivals == 0 ? nil : "is counted as \(outcome) but arrived"
    case .held, .unknown: nil
    case .accepted, .rejected, .suppressed, .capped, .holdout: "ended as \(outcome)"
    }
  }
}

/// Collects the outcomes of all notifications that were not accepted.
package final class OutcomeCollector: OutcomeListener {
  private let byToken = Mutex<[TokenBytes: Outcome]>([:])

  package init() {}

  package var outcomes: [TokenBytes: Outcome] { byToken.withLock { $0 } }

  package func notAccepted(line: UInt64, token: String, outcome: Outcome, goneSince: UInt64?, isDoubted: Bool) {
    guard let token = try? TokenBytes(parsing: token) else { return }
    byToken.withLock { $0[token] = outcome }
  }
}
