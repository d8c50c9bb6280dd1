/// Runs that left a lane's ring without being sent, and will be sent when their campaign resumes.
///
/// Campaigns that are cancelled together may leave a ring in any number of alternating runs.
/// Neighbouring runs of a campaign are joined into one piece, so memory does not grow with their
/// number.
struct ReturnedRuns {
  /// Returned notifications of one campaign. Those of other campaigns may lie between.
  struct Piece: Hashable {
    var run: JournalledRun
    var fate: RecoveredRun.Fate
  }

  private(set) var pieces: [Piece] = []
  /// The index of a campaign's last piece, as long as no notification of the campaign behind it has
  /// left the ring in another way.
  private var last: [UInt64: Int] = [:]
  /// By campaign, the end of the furthest range that left the ring out of order.
  private var leftEnd: [UInt64: UInt64] = [:]
  /// The same end for all campaigns, of ranges that only a checkpoint recorded.
  private var leftEndBefore: UInt64 = 0

  init() {}

  /// - Parameter end: nothing behind it has left the ring.
  init(_ pieces: [Piece], leftThrough end: UInt64) {
    self.pieces = pieces
    leftEndBefore = end
  }

  // MARK: Events

  /// Notifications of the campaign at the front of the ring left it in another way.
  mutating func settled(_ campaign: UInt64) {
    if !last.isEmpty { last[campaign] = nil }
  }

  /// Notifications anywhere in the ring have their outcome.
  mutating func answered(_ run: JournalledRun) {
    leftEnd[run.campaign] = max(leftEnd(of: run.campaign), run.range.upperBound)
  }

  /// A run at the front of the ring was returned.
  mutating func append(_ run: JournalledRun, _ fate: RecoveredRun.Fate) {
    if let index = last[run.campaign], pieces[index].fate == fate,
      pieces[index].run.range.upperBound <= run.range.lowerBound
    {
      extend(index, by: run)
    } else {
      last[run.campaign] = pieces.count
      pieces.append(Piece(run: run, fate: fate))
    }
  }

  /// The range between the campaign's last piece and `run`, if the two can be joined across it; nil
  /// otherwise.
  func gap(before run: JournalledRun, _ fate: RecoveredRun.Fate) -> Range<UInt64>? {
    let end = leftEnd(of: run.campaign)
    guard let index = last[run.campaign], pieces[index].fate == fate, pieces[index].run.range.upperBound == end,
      end <= run.range.lowerBound
    else { return nil }
    return end..<run.range.lowerBound
  }

  /// A run anywhere in the ring was returned.
  ///
  /// - Parameter joins: nothing of its campaign lies in ``gap(before:_:)``.
  mutating func insert(_ run: JournalledRun, _ fate: RecoveredRun.Fate, joins: Bool) {
    let end = leftEnd(of: run.campaign)
    if joins, let index = last[run.campaign] {
      extend(index, by: run)
    } else {
      if end <= run.range.lowerBound { last[run.campaign] = pieces.count }
      pieces.append(Piece(run: run, fate: fate))
    }
    leftEnd[run.campaign] = max(end, run.range.upperBound)
  }

  private mutating func extend(_ index: Int, by run: JournalledRun) {
    pieces[index].run.range = pieces[index].run.range.lowerBound..<run.range.upperBound
    pieces[index].run.count += run.count
  }

  private func leftEnd(of campaign: UInt64) -> UInt64 { max(leftEnd[campaign] ?? 0, leftEndBefore) }

  /// Records are missing, so no run is certainly unsent any more.
  mutating func distrust() {
    for index in pieces.indices where pieces[index].fate == .unsent { pieces[index].fate = .unknown }
    last = [:]
  }

  /// - Parameters:
  ///   - isGone: whether everything of a campaign before a position has continued in another lane.
  ///   - isEnded: whether a campaign has its final account.
  mutating func prune(isGone: (UInt64, UInt64) -> Bool, isEnded: (UInt64) -> Bool) {
    pieces.removeAll { isGone($0.run.campaign, $0.run.range.upperBound) }
    last = [:]
    leftEnd = leftEnd.filter { !isEnded($0.key) }
  }

  // MARK: Questions

  /// Whether anything of the campaign in `range` was returned.
  func overlaps(_ range: Range<UInt64>, of campaign: UInt64) -> Bool {
    pieces.contains {
      $0.run.campaign == campaign && $0.run.range.lowerBound < range.upperBound
        && range.lowerBound < $0.run.range.upperBound
    }
  }

  /// The pieces of one campaign, in the order of the ring.
  func pieces(of campaign: UInt64) -> [Piece] {
    pieces.filter { $0.run.campaign == campaign }.sorted { $0.run.range.lowerBound < $1.run.range.lowerBound }
  }

  /// The position of the first piece, or `end` if that is lower.
  func start(before end: UInt64) -> UInt64 { pieces.map(\.run.range.lowerBound).reduce(end, min) }
}
