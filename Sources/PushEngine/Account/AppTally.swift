internal import PushTransport
internal import Synchronization

/// What an app has done since its process began: the outcomes of all its campaigns together, and
/// how its connections ended. For metrics.
///
/// It reads the ledgers when it is asked, so it costs nothing per notification. It belongs to an
/// app of the deployment, and stays when the engine's part of that app is replaced: its numbers
/// only grow.
package final class AppTally: Sendable {
  private struct State {
    /// The sum of the campaigns that have their final account.
    var ended = Account()
    /// The campaigns that still run, each with its account from earlier processes.
    var live: [ObjectIdentifier: (ledger: CampaignLedger, before: Account)] = [:]
    var endings = [Int](repeating: 0, count: ConnectionEnding.allCases.count)
  }

  private let state = Mutex(State())

  package init() {}

  /// The sum of what this process has counted. Notifications that an earlier one took in are not in
  /// ``Account/submitted``, but their outcomes are counted.
  package var account: Account {
    state.withLock { state in
      state.live.values.reduce(into: state.ended) { $0 += $1.ledger.account - $1.before }
    }
  }

  /// How many connections have ended so, or could not be opened.
  package func count(of ending: ConnectionEnding) -> Int { state.withLock { $0.endings[ending.rawValue] } }

  func began(_ ledger: CampaignLedger) {
    let before = ledger.account
    state.withLock { $0.live[ObjectIdentifier(ledger)] = (ledger, before) }
  }

  /// The campaign has its final account.
  func ended(_ ledger: CampaignLedger) {
    state.withLock { state in
      guard let (ledger, before) = state.live.removeValue(forKey: ObjectIdentifier(ledger)) else { return }
      state.ended += ledger.account - before
    }
  }

  func connectionEnded(_ reason: LinkClosure) {
    let ending = ConnectionEnding(reason)
    state.withLock { $0.endings[ending.rawValue] += 1 }
  }
}

/// How a connection ended, or why it could not be opened.
package enum ConnectionEnding: Int, Hashable, Sendable, CaseIterable {
  case closedByGateway, closedByUs, reset, unreachable, handshakeFailed, credentialRefused, failed

  init(_ reason: LinkClosure) {
    self =
      switch reason {
      case .byPeer, .truncated: .closedByGateway
      case .byUs: .closedByUs
      case .reset: .reset
      case .unreachable: .unreachable
      case .handshakeFailed: .handshakeFailed
      case .credentialRefused: .credentialRefused
      case .failed: .failed
      }
  }
}
