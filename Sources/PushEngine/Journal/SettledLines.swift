/// Which lines of a campaign's audience have their final outcome by the word of the journal: what an earlier process has listed about the others is void.
package struct SettledLines: Sendable {
  private let enqueuedLine: UInt64
  private let rejectedLine: UInt64
  private let openLines: Set<UInt64>

  /// To be made before the campaign goes on.
  package init(of campaign: JournalledCampaign, leftovers: [Leftover]) {
    enqueuedLine = campaign.enqueuedLine
    rejectedLine = campaign.rejectedLine
    var open: Set<UInt64> = []
    for leftover in leftovers { leftover.forEach { open.insert($0.line) } }
    openLines = open
  }

  /// - Parameter wasTakenIn: false for a line that could not be sent. Those are counted a chunk at a time, so further ahead than what can be sent is taken in.
  package func contains(_ line: UInt64, wasTakenIn: Bool) -> Bool {
    line <= (wasTakenIn ? enqueuedLine : rejectedLine) && !openLines.contains(line)
  }
}
