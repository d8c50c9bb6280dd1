package import PushStore
package import PushWire

/// Nodes and segments, as a simulated store has them.
package struct LedgerContents: Sendable, CustomStringConvertible {
  /// For tests of the simulation.
  package enum PlantedMistake: CaseIterable, Sendable {
    /// A report is written whoever owns the segment now.
    case ignoresTheEpoch
    /// Whoever claims a segment has read it before.
    case readsBeforeTheClaim
    /// The account of a report is in the next commit.
    case splitsReports
    /// A commit that did not wait for the standby counts as made; see
    /// ``SimulatedStore/Faults/warnedPerMille``.
    case trustsWarnings
    /// A process that begins ends runs of other nodes, too.
    case endsRunsOfOthers
  }

  struct Segment {
    var row: StoredSegment
    var owner: Int64?
    /// See ``PlantedMistake/splitsReports``.
    var nextAccount: [UInt8]?
  }

  /// What is granted of each segment, in their order.
  package var grants: [(firstKey: Int64, granted: Int)] { segments.map { ($0.row.id.firstKey, $0.row.granted) } }

  /// The accounts of all segments, in the same order.
  package var segmentAccounts: [[UInt8]?] { segments.map(\.row.account) }

  /// How each segment stands, and the account of it that its owner has told.
  package var accounts: [String] {
    segments.map {
      "\($0.row.id.firstKey)@\($0.row.epoch): \($0.row.count), \(String(decoding: $0.row.account ?? [], as: UTF8.self))"
    }
  }

  /// Whether a process has segments that are not settled.
  package func carries(_ incarnation: Int64?) -> Bool {
    segments.contains { $0.owner == incarnation && !$0.row.isSettled }
  }

  package mutating func drain(_ node: String) { nodes[node]?.isDraining = true }

  struct Rows {
    let segment: SegmentID
    let epoch: Int64
    var rows: OutcomeRows

    var cursor: OutcomeRowsCursor { OutcomeRowsCursor(segment: segment, epoch: epoch, after: rows.after) }
  }

  var nodes: [String: StoredNode] = [:]
  /// The time in the world, which no process knows; nil: nobody tells it.
  package var time: Instant?
  /// How far the store's clock is ahead of what it was: another machine has the database by now.
  package var clockStep = Duration.zero
  /// When each process joined or beat last, in the world and by the store's clock.
  var beats: [Int64: (time: Instant, clock: Instant)] = [:]
  /// By node.
  var journals: [String: String] = [:]
  var takeovers: [SegmentTakeover] = []
  var lastIncarnation: Int64 = 0
  var leader: Int64?
  /// In the order of campaigns, parts and keys.
  var segments: [Segment] = []
  var rows: [Rows] = []
  /// The shared parts, and how far each is divided.
  var dividedKeys: [StoredUUID: [Int: Int64]] = [:]
  var openParts: [StoredUUID: [Int: StoreInstant]] = [:]
  /// What each node may use of a rate, and would use, by the name of the limit.
  var rates: [String: [Int64: RateShare.Peer]] = [:]
  /// When a node gave its share up, by the name of the limit.
  var freedRates: [String: [Int64: Instant]] = [:]
  /// The number of each node's last exchange.
  var exchanges: [Int64: Int64] = [:]

  /// The store's.
  var clock: Instant { (time ?? .start) + clockStep }

  mutating func noteBeat(of incarnation: Int64) {
    if let time { beats[incarnation] = (time, clock) }
  }

  /// Since the last beat, by the store's clock.
  func silence(of incarnation: Int64) -> Duration { beats[incarnation].map { clock.since($0.clock) } ?? .zero }

  /// Whether a process was silent for less than its lease; nobody's clock is faster by a twentieth.
  func isHeard(_ node: StoredNode) -> Bool {
    guard let time, let beat = beats[node.incarnation] else { return false }
    return time.since(beat.time) < node.facts.lease * 19 / 20
  }

  func isFree(_ segment: Segment) -> Bool {
    !segment.row.isSettled && !nodes.values.contains { $0.isAlive && $0.incarnation == segment.owner }
  }

  /// All lists of a campaign, as one.
  package func listed(_ campaign: StoredUUID) -> String {
    String(decoding: rows.filter { $0.segment.campaign == campaign }.flatMap(\.rows.bytes), as: UTF8.self)
  }

  package var description: String {
    segments.filter { !$0.row.isSettled }.map { segment in
      "segment \(segment.row.id.firstKey) of \(segment.row.count) owner \(segment.owner ?? 0) "
        + "epoch \(segment.row.epoch) granted \(segment.row.granted) inherited \(segment.row.inherited)"
    }.joined(separator: ", ") + " nodes \(nodes.values.filter(\.isAlive).map(\.incarnation)) rates \(rates)"
  }

  mutating func forget(_ campaign: StoredUUID) {
    segments.removeAll { $0.row.id.campaign == campaign }
    rows.removeAll { $0.segment.campaign == campaign }
    takeovers.removeAll { $0.segment.campaign == campaign }
    (dividedKeys[campaign], openParts[campaign]) = (nil, nil)
  }
}
