internal import Carillon
internal import PushSend
internal import PushServer
internal import PushWire

/// What a watched campaign's events become on standard error: a line for each state, and progress
/// as `carillon send` shows it. It has no clock and writes nothing.
struct WatchDisplay {
  private let style: ProgressStyle
  private var display: ProgressDisplay
  /// Since the campaign began to send, or was resumed: a pause does not count.
  private var start: (elapsed: Duration, progress: ServiceCampaign.Progress)?
  private var told = ""

  /// Of what is read: the service says how much as a share.
  private static let whole = 1_000_000

  init(_ style: ProgressStyle) {
    self.style = style
    display = ProgressDisplay(style)
  }

  /// - Parameters:
  ///   - isEnd: its account is final.
  ///   - now: since any moment, the same for every call.
  mutating func text(_ campaign: ServiceCampaign, isEnd: Bool, now: Duration) -> String {
    var text = ""
    let line = Self.line(campaign, isEnd: isEnd)
    if line != told {
      told = line
      text += display.clear() + line + "\n"
    }
    guard !isEnd, campaign.state == "running", let progress = campaign.progress else {
      if start != nil { text += display.clear() }
      start = nil
      return text
    }
    if start == nil {
      start = (now, progress)
      display = ProgressDisplay(style)
    }
    return text + (display.update(snapshot(progress, now)) ?? "")
  }

  private func snapshot(_ progress: ServiceCampaign.Progress, _ now: Duration) -> ProgressSnapshot {
    let first = start ?? (now, progress)
    var snapshot = ProgressSnapshot(
      submitted: progress.submitted, settled: progress.settled, rejected: progress.rejected,
      consumedByteCount: progress.read.map { Int($0 * Double(Self.whole)) } ?? 0,
      totalByteCount: progress.read.map { _ in Self.whole }, elapsed: now - first.elapsed)
    snapshot.settledBefore = first.progress.settled
    snapshot.fractionBefore = first.progress.fraction
    return snapshot
  }

  private static func line(_ campaign: ServiceCampaign, isEnd: Bool) -> String {
    var line = campaign.state
    if isEnd, let progress = campaign.progress {
      line += ": \(NumberText.grouped(progress.accepted)) accepted, "
      line += "\(NumberText.grouped(progress.rejected + progress.others)) not accepted"
    }
    if let reason = campaign.reason { line += " (\(reason))" }
    return line.withControlsEscaped
  }
}

extension ServiceCampaign.Progress {
  fileprivate var settled: Int { accepted + rejected + others }

  /// How much of the audience has been read; nil: not known.
  fileprivate var read: Double? {
    if let total, total > 0 { return min(1, Double(submitted) / Double(total)) }
    return fractionRead
  }

  fileprivate var fraction: Double {
    guard let read, submitted > 0 else { return 0 }
    return read * Double(settled) / Double(submitted)
  }
}
