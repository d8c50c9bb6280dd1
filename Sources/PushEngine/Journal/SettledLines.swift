/// Which lines of a campaign's audience have their final outcome by the word of the journal: what an earlier process has listed about the others is void.
package struct SettledLines: Sendable {
  private let readLine: UInt64
  private let openLines: Set<UInt64>

  /// To be made before the campaign goes on.
  package init(of campaign: JournalledCampaign, leftovers: [Leftover]) {
    readLine = campaign.readLine
    var open: Set<UInt64> = []
    for leftover in leftovers { leftover.forEach { open.insert($0.line) } }
    openLines = open
  }

  package func contains(_ line: UInt64) -> Bool { line <= readLine && !openLines.contains(line) }
}
