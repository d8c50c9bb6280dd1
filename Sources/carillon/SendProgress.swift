internal import Foundation
internal import PushEngine

/// Shows a campaign's progress on standard error until its task is cancelled.
struct SendProgress: Sendable {
  private let audiences: [SendAudience]
  private let ledgers: [CampaignLedger]
  private let started: ContinuousClock.Instant
  private var settledBefore = 0
  private var fractionBefore = 0.0

  init(_ audiences: [SendAudience], ledgers: [CampaignLedger], started: ContinuousClock.Instant) {
    self.audiences = audiences
    self.ledgers = ledgers
    self.started = started
    let first = snapshot
    settledBefore = first.settled
    fractionBefore = first.fraction ?? 0
  }

  func show() async {
    let stream = StandardStream.error
    var display = ProgressDisplay(stream.isTerminal ? .terminal(columns: stream.columnCount) : .log)
    while !Task.isCancelled {
      if let text = display.update(snapshot) { _ = stream.write(Array(text.utf8)) }
      // Cancelled when the campaign has ended: then there is nothing left to wait for.
      try? await Task.sleep(for: .milliseconds(100))
    }
    _ = stream.write(Array(display.clear().utf8))
  }

  private var snapshot: ProgressSnapshot {
    let account = ledgers.map(\.account).reduce(Account(), +)
    let sizes = audiences.map(\.byteCount)
    return ProgressSnapshot(
      submitted: account.submitted, settled: account.settled, rejected: account.rejectedTotal,
      consumedByteCount: audiences.map(\.consumedByteCount).reduce(0, +),
      totalByteCount: sizes.contains(nil) ? nil : sizes.compactMap { $0 }.reduce(0, +), elapsed: ContinuousClock.now - started,
      settledBefore: settledBefore, fractionBefore: fractionBefore)
  }
}
