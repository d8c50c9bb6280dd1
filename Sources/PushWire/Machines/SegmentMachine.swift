/// A segment of a campaign's audience as the node that owns it sees it: which of its lines it may
/// put into lanes, and which have their outcome.
///
/// Nodes share an audience out among them in segments. Every line up to ``granted`` may be in a
/// ring, and only what the ledger has acknowledged moves that. So whoever takes over the segment
/// knows everybody who may have got it: those up to `granted` without an outcome.
///
/// It begins with ``begin()``, and after that gives a ``report(readThrough:ahead:)`` for each
/// flush, until ``isSettled``.
package struct SegmentMachine: Sendable {
  /// Whether a line may be read.
  package enum Turn: Hashable, Sendable {
    /// It has its outcome.
    case settled
    /// An earlier owner may have sent it.
    case doubted
    /// Nobody has sent it.
    case unsent
    /// The ledger does not know yet that it may be sent.
    case notGranted
  }

  /// What an owner tells the ledger.
  package struct Report: Hashable, Sendable {
    package let granted: Int
    package let settled: LineSet
    package let doubted: LineSet
  }

  /// Copies of a segment's notifications that may arrive because its owner sends them again.
  package struct Doubts: Hashable, Sendable {
    /// Notifications that are in doubt for the first time.
    package var newCount = 0
    /// All notifications in doubt.
    package var count = 0

    package init(newCount: Int = 0, count: Int = 0) { (self.newCount, self.count) = (newCount, count) }
  }

  /// For tests of the simulation.
  package enum PlantedMistake: CaseIterable, Sendable {
    /// Lines are sent before the ledger knows.
    case sendsBeforeTheAnswer
    /// Those that an earlier owner may have sent count as unsent.
    case forgetsTheOwnerBefore
    /// Those that were in doubt before count as if they were not.
    case countsDoubtOnce
  }

  /// The number of lines, which have the numbers from 1.
  package let count: Int
  /// Lines up to this one that have no outcome may have been sent by earlier owners.
  package let inherited: Int
  /// Lines up to this one may be put into rings.
  package private(set) var granted: Int
  package private(set) var settled: LineSet
  /// Lines that more than one owner may have sent.
  package private(set) var doubted: LineSet
  /// Lines up to ``inherited`` that nobody has sent: the owner before has said so when it gave the
  /// segment back.
  private let unsent: LineSet
  /// The ledger knows what is in doubt.
  private var hasBegun: Bool
  private let plantedMistake: PlantedMistake?

  /// - Parameters:
  ///   - inherited: what the owners before could send.
  ///   - unsent: what of that they have certainly not sent; nil: it is not known.
  ///   - granted: what the ledger has granted to this owner already.
  ///   - hasBegun: the ledger knows what this owner found in doubt, because an earlier process of
  ///     its node has told it.
  package init(
    count: Int, inherited: Int, unsent: LineSet? = nil, granted: Int, settled: LineSet, doubted: LineSet,
    hasBegun: Bool,
    plantedMistake: PlantedMistake? = nil
  ) {
    (self.count, self.inherited, self.granted) = (count, inherited, granted)
    (self.settled, self.doubted, self.hasBegun) = (settled, doubted, hasBegun)
    (self.unsent, self.plantedMistake) = (unsent ?? LineSet(limit: count), plantedMistake)
  }

  package var isSettled: Bool { settled.count == count }

  /// Finds what earlier owners may have sent. The first report tells the ledger, and nothing can be
  /// read before that is acknowledged.
  ///
  /// - Parameter resends: whether it is sent again. Otherwise there are no copies.
  package mutating func begin(resends: Bool) -> Doubts {
    var doubts = Doubts()
    guard resends, !hasBegun else { return doubts }
    var certain = settled
    for lines in unsent.ranges { certain.insert(lines) }
    for lines in certain.holes(through: inherited) {
      doubts.newCount += doubted.insert(lines)
      doubts.count += lines.count
    }
    return plantedMistake == .countsDoubtOnce ? Doubts(newCount: doubts.newCount, count: doubts.newCount) : doubts
  }

  package func turn(of line: Int) -> Turn {
    if settled.contains(line) { return .settled }
    guard hasBegun || plantedMistake == .sendsBeforeTheAnswer else { return .notGranted }
    if line <= inherited {
      return plantedMistake == .forgetsTheOwnerBefore || unsent.contains(line) ? .unsent : .doubted
    }
    return line <= granted || plantedMistake == .sendsBeforeTheAnswer ? .unsent : .notGranted
  }

  /// Notes outcomes.
  ///
  /// - Returns: how many of the lines had none before.
  @discardableResult
  package mutating func settle(_ lines: ClosedRange<Int>) -> Int { settled.insert(lines) }

  /// - Parameters:
  ///   - line: the last one that was read; 0: none.
  ///   - ahead: how many lines behind it to grant.
  package func report(readThrough line: Int, ahead: Int) -> Report {
    Report(
      granted: max(granted, inherited, min(count, line + max(0, ahead))), settled: settled, doubted: doubted)
  }

  /// The lines that nobody has sent, when the owner gives the segment back.
  ///
  /// - Parameters:
  ///   - withdrawn: lines that were read, and were never given to a connection.
  ///   - line: the last one that was read; nil: it is not known what was read.
  ///   - last: up to which the ledger may have granted, whether or not its answer has come.
  package func unsent(besides withdrawn: LineSet, readThrough line: Int?, through last: Int) -> LineSet {
    var found = LineSet(limit: count)
    func add(_ lines: ClosedRange<Int>) {
      for line in lines where !settled.contains(line) && (line > inherited || unsent.contains(line)) {
        found.insert(line...line)
      }
    }
    for lines in withdrawn.ranges { add(lines) }
    if let line, line < min(last, count) { add((line + 1)...min(last, count)) }
    return found
  }

  /// The ledger has acknowledged a report.
  package mutating func acknowledge(_ report: Report) {
    granted = max(granted, report.granted)
    hasBegun = true
  }
}
