internal import Carillon
internal import Foundation
internal import PushEngine

/// Shows a campaign's progress on standard error until its task is cancelled.
struct SendProgress: Sendable {
  private let audiences: [SendAudience]
  private let apps: [SentApp]
  private let started: ContinuousClock.Instant
  private var settledBefore = 0
  private var fractionBefore = 0.0

  /// An app and the campaigns that go through it.
  struct SentApp: Sendable {
    var id: String
    var app: App
    var ledgers: [CampaignLedger]

    var account: Account { ledgers.map(\.account).reduce(Account(), +) }
  }

  init(_ audiences: [SendAudience], apps: [SentApp], started: ContinuousClock.Instant) {
    self.audiences = audiences
    self.apps = apps
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
    let accounts = apps.map(\.account)
    let account = accounts.reduce(Account(), +)
    let sizes = audiences.map(\.byteCount)
    return ProgressSnapshot(
      submitted: account.submitted, settled: account.settled, rejected: account.rejectedTotal,
      consumedByteCount: audiences.map(\.consumedByteCount).reduce(0, +),
      totalByteCount: sizes.contains(nil) ? nil : sizes.compactMap { $0 }.reduce(0, +), elapsed: ContinuousClock.now - started,
      settledBefore: settledBefore, fractionBefore: fractionBefore,
      apps: zip(apps, accounts).map { AppProgress(id: $0.id, settled: $1.settled, inFlight: $1.inFlight, obstacle: $0.app.obstacle) })
  }
}
