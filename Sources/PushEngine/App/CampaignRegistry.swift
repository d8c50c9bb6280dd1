internal import PushTransport
internal import PushWire
internal import Synchronization

/// The campaigns that an app is sending: their ledgers by number, and whether more is to come.
///
/// From any thread. A lane asks once per turn or per run of notifications, never once for each.
final class CampaignRegistry: Sendable {
  private struct State {
    var ledgers: [UInt32: CampaignLedger] = [:]
    var nextNumber: UInt32 = 1
    /// Of all that have one.
    var lease: SendLease?
    var failure: String?
  }

  private let state = Mutex(State())
  private let openCount = Atomic<Int>(0)
  private let cancellations = Atomic<Int>(0)
  private let tally: AppTally

  init(tally: AppTally) { self.tally = tally }

  /// Opens a campaign's ledger. A failed app takes none.
  ///
  /// - Parameter makeLedger: gets the number that the campaign has in this app's rings.
  func begin(_ makeLedger: (UInt32) -> CampaignLedger) throws(AppFailure) -> CampaignLedger {
    let (ledger, failure): (CampaignLedger, String?) = state.withLock { state in
      let ledger = makeLedger(state.nextNumber)
      if state.failure == nil {
        state.ledgers[state.nextNumber] = ledger
        state.nextNumber += 1
        state.lease = ledger.lease ?? state.lease
      }
      return (ledger, state.failure)
    }
    if let failure { throw AppFailure(reason: failure) }
    tally.began(ledger)
    openCount.add(1, ordering: .acquiringAndReleasing)
    return ledger
  }

  /// The campaign's audience has ended, or its reader has stopped.
  func close(_ ledger: CampaignLedger) {
    ledger.closeIntake()
    openCount.subtract(1, ordering: .acquiringAndReleasing)
  }

  /// A campaign's reader waits for its source or for the end of a pause.
  func readerWaits() { openCount.subtract(1, ordering: .acquiringAndReleasing) }

  func readerContinues() { openCount.add(1, ordering: .acquiringAndReleasing) }

  /// The campaign has its final account; the lanes no longer need its ledger.
  func forget(_ ledger: CampaignLedger) {
    state.withLock { $0.ledgers[ledger.frames.campaign] = nil }
    tally.ended(ledger)
  }

  subscript(campaign: UInt32) -> CampaignLedger? { state.withLock { $0.ledgers[campaign] } }

  /// Notifications without an outcome, in lanes and in reservoirs.
  var inFlightCount: Int { state.withLock { Array($0.ledgers.values) }.reduce(0) { $0 + $1.account.inFlight } }

  /// No campaign is being read: nothing more will come for now.
  var isDraining: Bool { openCount.load(ordering: .acquiring) == 0 }

  /// Every campaign was cancelled.
  var isCancelled: Bool { state.withLock { state in state.ledgers.values.allSatisfy { $0.isCancelled } } }

  /// Some of them may not be sent at present.
  func isHolding(at now: Instant) -> Bool { state.withLock { $0.lease?.isOver(at: now) ?? false } }

  /// Why the app cannot send, if it cannot.
  var failure: String? { state.withLock { $0.failure } }

  /// Cancels every campaign.
  ///
  /// - Parameter failure: why the app cannot send any more; nil if it was asked to stop.
  /// - Returns: whether the app fails by this call.
  func cancelAll(failure: String?) -> Bool {
    let (ledgers, isNew) = state.withLock { state in
      let isNew = state.failure == nil && failure != nil
      state.failure = state.failure ?? failure
      return (Array(state.ledgers.values), isNew)
    }
    for ledger in ledgers { ledger.cancel() }
    countCancellation()
    return isNew
  }

  /// Grows with every cancellation.
  var cancellationCount: Int { cancellations.load(ordering: .acquiring) }

  func countCancellation() { cancellations.add(1, ordering: .releasing) }
}

/// Why an app cannot send: one sentence.
package struct AppFailure: Error, Hashable, CustomStringConvertible {
  package var reason: String
  package var description: String { reason }
}
