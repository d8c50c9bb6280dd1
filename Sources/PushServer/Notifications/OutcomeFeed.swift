internal import PushService
internal import PushStore
internal import PushWire
internal import Synchronization

/// The outcomes of an app as JSON, one after the other.
struct OutcomeFeed: Sendable {
  let store: any Store
  let recorder: OutcomeRecorder
  let pending: PendingNotes

  /// Outcomes as objects, each with a separator behind it.
  struct Page: Sendable {
    var bytes: [UInt8] = []
    var count = 0
    /// The number of the last one; without outcomes that behind which they would be.
    var last: Int64
  }

  private static let pause = Duration.milliseconds(100)
  /// Other nodes write outcomes, too.
  private static let lookInterval = Duration.seconds(1)

  /// The next outcomes.
  ///
  /// - Parameters:
  ///   - number: of the last one that is known; 0: from the beginning.
  ///   - separator: behind each.
  ///   - wait: if there are none, how long to wait for the first.
  func page(
    _ app: String, after number: Int64, limit: Int, separator: UInt8, wait: Duration, clock: any ServiceClock,
    while isOpen: () -> Bool = { true }
  ) async throws -> Page {
    let deadline = clock.uptime + wait
    while true {
      let known = recorder.listedCount(app)
      let page = try await page(app, after: number, limit: limit, separator: separator)
      guard page.count == 0, clock.uptime < deadline, isOpen() else { return page }
      let look = min(deadline, clock.uptime + Self.lookInterval)
      repeat {
        try await clock.sleep(for: Self.pause)
      } while recorder.listedCount(app) == known && clock.uptime < look && isOpen()
    }
  }

  private func page(_ app: String, after number: Int64, limit: Int, separator: UInt8) async throws -> Page {
    // Asked for before the groups are read: what is noted from now on is of later ones.
    let fence = pending.oldest(app)
    let found = try await store.outcomeGroups(app: app, after: number, limit: limit)
    let groups = fence.map { fence in found.prefix { OutcomeList.end(of: $0) < fence } } ?? found[...]
    let lines = try groups.compactMap { group throws(OutcomeEntries.Damage) -> StoredLines? in
      guard case .run(let run, _) = group.origin else { return nil }
      let lines = try OutcomeText.lines(of: group)
      return lines.map { StoredLines(run: run, lines: $0) }
    }
    let notes = lines.isEmpty ? NotificationNotes() : try await store.notes(of: lines)
    var page = Page(last: number)
    for group in groups where page.count < limit {
      try OutcomeText(group, notes).write(to: &page, limit: limit, separator: separator)
    }
    return page
  }
}

/// Callers that have handed notifications over, and are about to say what belongs to them. Whoever
/// reads outcomes reads none of later ones until they have: an outcome is read with its reference.
final class PendingNotes: Sendable {
  private struct State {
    var next = 0
    /// By app.
    var begun: [String: [Int: StoreInstant]] = [:]
  }

  private let state = Mutex(State())

  /// Ends with the last reference.
  final class Hold: Sendable {
    private let notes: PendingNotes
    private let app: String
    private let number: Int

    fileprivate init(_ notes: PendingNotes, _ app: String, _ number: Int) {
      (self.notes, self.app, self.number) = (notes, app, number)
    }

    deinit { notes.state.withLock { $0.begun[app]?[number] = nil } }
  }

  /// To be called before notifications are handed over.
  func hold(_ app: String, since instant: StoreInstant) -> Hold {
    state.withLock { state in
      state.next += 1
      state.begun[app, default: [:]][state.next] = instant
      return Hold(self, app, state.next)
    }
  }

  /// When the first of an app's callers has begun; nil: there are none.
  func oldest(_ app: String) -> StoreInstant? { state.withLock { $0.begun[app]?.values.min() } }
}

/// One group of outcomes as JSON.
struct OutcomeText {
  private let group: OutcomeGroup
  private let notes: NotificationNotes
  private let identifiers: Identifiers
  /// What all of them have in common, before and behind what they have not.
  private let (start, middle, end): ([UInt8], [UInt8], [UInt8])

  private enum Identifiers {
    case run(StoredRunID)
    case campaign(APNSIdentifierSequence)
  }

  init(_ group: OutcomeGroup, _ notes: NotificationNotes) {
    (self.group, self.notes) = (group, notes)
    let campaign: StoredUUID?
    let isBridge: Bool
    switch group.origin {
    case .run(let run, let isFromBridge): (identifiers, campaign, isBridge) = (.run(run), nil, isFromBridge)
    case .campaign(let id, let seed):
      identifiers = .campaign(APNSIdentifierSequence(IdentifierSeed(high: seed.high, low: seed.low)))
      (campaign, isBridge) = (id, false)
    }
    start = Array(#"","at":"\#(InstantText.text(group.at))","id":""#.utf8)
    middle = Array(#"","app":\#(JSONText.quoted(group.app)),"token":""#.utf8)
    var end = #"","outcome":\#(JSONText.quoted(group.state))"#
    if !group.detail.isEmpty { end += #","reason":\#(JSONText.quoted(group.detail))"# }
    if let campaign { end += #","campaign":"\#(campaign.text)""# }
    if isBridge { end += #","bridge":true"# }
    self.end = Array(end.utf8)
  }

  /// From the first to the last line of a group; nil: it has none.
  static func lines(of group: OutcomeGroup) throws(OutcomeEntries.Damage) -> ClosedRange<UInt32>? {
    var reader = OutcomeEntries.Reader(group.entries)
    var lines: ClosedRange<UInt32>?
    while let entry = try reader.next() {
      let line = UInt32(clamping: entry.line)
      lines = min(lines?.lowerBound ?? line, line)...max(lines?.upperBound ?? line, line)
    }
    return lines
  }

  /// - Throws: ``OutcomeEntries/Damage``.
  func write(to page: inout OutcomeFeed.Page, limit: Int, separator: UInt8) throws(OutcomeEntries.Damage) {
    var reader = OutcomeEntries.Reader(group.entries)
    var number = group.last - Int64(group.count)
    while page.count < limit, let entry = try reader.next() {
      number += 1
      guard number > page.last else { continue }
      write(entry, number, to: &page.bytes)
      page.bytes.append(separator)
      page.count += 1
      page.last = number
    }
  }

  private func write(_ entry: OutcomeEntries.Entry, _ number: Int64, to bytes: inout [UInt8]) {
    bytes += #"{"cursor":""#.utf8
    bytes += String(number).utf8
    bytes += start
    bytes += id(entry.line).description.utf8
    bytes += middle
    if entry.isText {
      JSONText.appendEscaped(String(decoding: entry.token, as: UTF8.self), to: &bytes)
    } else {
      for byte in entry.token {
        bytes.append(Self.digits[Int(byte >> 4)])
        bytes.append(Self.digits[Int(byte & 15)])
      }
    }
    bytes += end
    if let since = entry.goneSince {
      bytes += #","goneSince":"\#(InstantText.text(StoreInstant(milliseconds: Int64(clamping: since))))""#.utf8
    }
    if entry.isDoubted { bytes += #","possibleDuplicate":true"#.utf8 }
    if case .run(let run) = identifiers { writeNotes(run, UInt32(clamping: entry.line), to: &bytes) }
    bytes.append(UInt8(ascii: "}"))
  }

  private static let digits = Array("0123456789abcdef".utf8)

  private func id(_ line: UInt64) -> APNSIdentifier {
    switch identifiers {
    case .run(let run): APNSIdentifier(high: run.high, low: UInt64(run.low) << 32 | line & 0xFFFF_FFFF)
    case .campaign(let sequence): sequence[line]
    }
  }

  private func writeNotes(_ run: StoredRunID, _ line: UInt32, to bytes: inout [UInt8]) {
    if let reference = notes.references[StoredNotificationID(run: run, line: line)] {
      bytes += #","reference":\#(JSONText.quoted(reference))"#.utf8
    }
    if let found = notes.batches.first(where: { $0.lines.run == run && $0.lines.lines.contains(line) }) {
      bytes += #","batch":"\#(found.batch.text)""#.utf8
    }
  }
}
