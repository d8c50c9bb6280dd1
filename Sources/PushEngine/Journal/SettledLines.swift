/// Which lines of a campaign's audience have their final outcome by the journal. What an earlier
/// process has listed about other lines is void.
package struct SettledLines: Sendable {
  private let readLine: UInt64
  /// In order. A sorted array, because a million of them must not take more memory than needed.
  private let openLines: [UInt64]
  /// How many of those without an outcome may have arrived. Each of them is a possible copy when it
  /// is sent again.
  package let doubtedCount: Int

  /// Call it before the campaign is resumed.
  package init(of campaign: JournalledCampaign, recoveredRuns: [RecoveredRun]) {
    readLine = campaign.readLine
    doubtedCount = recoveredRuns.reduce(0) { $0 + ($1.fate == .unsent ? 0 : $1.count) }
    var open: [UInt64] = []
    open.reserveCapacity(recoveredRuns.reduce(0) { $0 + $1.count })
    for recovered in recoveredRuns { recovered.forEach { open.append($0.line) } }
    open.sort()
    openLines = open
  }

  package func contains(_ line: UInt64) -> Bool { line <= readLine && !isOpen(line) }

  private func isOpen(_ line: UInt64) -> Bool {
    var (low, high) = (0, openLines.count)
    while low < high {
      let middle = (low + high) / 2
      if openLines[middle] < line { low = middle + 1 } else { high = middle }
    }
    return low < openLines.count && openLines[low] == line
  }
}
