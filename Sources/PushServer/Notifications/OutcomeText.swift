internal import PushService
internal import PushStore
internal import PushWire

/// One group of outcomes as JSON.
struct OutcomeText {
  private let group: OutcomeGroup
  private let references: [StoredNotificationID: String]
  /// In the order of their lines.
  private let batches: [(lines: StoredLines, batch: StoredUUID)]
  private let identifiers: Identifiers
  /// What all of them have in common, before and behind what they have not.
  private let (start, middle, end): ([UInt8], [UInt8], [UInt8])

  private enum Identifiers {
    case run(StoredRunID)
    case campaign(APNSIdentifierSequence)
  }

  init(_ group: OutcomeGroup, _ labels: NotificationLabels) {
    (self.group, references) = (group, labels.references)
    if case .run(let run, _) = group.origin {
      batches = labels.batches.filter { $0.lines.run == run }.sorted {
        $0.lines.lines.lowerBound < $1.lines.lines.lowerBound
      }
    } else {
      batches = []
    }
    let campaign: StoredUUID?
    let isBridge: Bool
    switch group.origin {
    case .run(let run, let isFromBridge): (identifiers, campaign, isBridge) = (.run(run), nil, isFromBridge)
    case .campaign(let id, let seed):
      identifiers = .campaign(APNSIdentifierSequence(IdentifierSeed(high: seed.high, low: seed.low)))
      (campaign, isBridge) = (id, false)
    }
    start = Array(#"","at":"\#(InstantText.text(group.at))","id":""#.utf8)
    middle = Array(#"","app":\#(JSONText.quoted(group.app)),""#.utf8)
    var end = #"","outcome":\#(JSONText.quoted(group.state))"#
    if !group.detail.isEmpty { end += #","reason":\#(JSONText.quoted(group.detail))"# }
    if let campaign { end += #","campaign":"\#(campaign.text)""# }
    if isBridge { end += #","bridge":true"# }
    self.end = Array(end.utf8)
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
    bytes += (entry.isChannel ? #"channel":""# : #"token":""#).utf8
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
    if case .run(let run) = identifiers { writeLabels(run, UInt32(clamping: entry.line), to: &bytes) }
    bytes.append(UInt8(ascii: "}"))
  }

  private static let digits = Array("0123456789abcdef".utf8)

  private func id(_ line: UInt64) -> APNSIdentifier {
    switch identifiers {
    case .run(let run): APNSIdentifier(high: run.high, low: UInt64(run.low) << 32 | line & 0xFFFF_FFFF)
    case .campaign(let sequence): sequence[line]
    }
  }

  private func writeLabels(_ run: StoredRunID, _ line: UInt32, to bytes: inout [UInt8]) {
    if let reference = references[StoredNotificationID(run: run, line: line)] {
      bytes += #","reference":\#(JSONText.quoted(reference))"#.utf8
    }
    if let batch = batch(of: line) { bytes += #","batch":"\#(batch.text)""#.utf8 }
  }

  /// Batches do not overlap, so only the last one that begins before a line can have it.
  private func batch(of line: UInt32) -> StoredUUID? {
    var range = batches.indices
    while !range.isEmpty {
      let middle = range.lowerBound + range.count / 2
      range =
        batches[middle].lines.lines.lowerBound <= line
        ? middle + 1..<range.upperBound : range.lowerBound..<middle
    }
    guard range.lowerBound > 0 else { return nil }
    let found = batches[range.lowerBound - 1]
    return found.lines.lines.contains(line) ? found.batch : nil
  }
}

extension OutcomeGroup {
  /// More lines than this between two others are not read for them.
  private static let gap: UInt32 = 64

  /// Stretches of a run that have all of the group's lines, and few others. Of a campaign, none.
  var lines: [StoredLines] {
    get throws(OutcomeEntries.Damage) {
      guard case .run(let run, _) = origin else { return [] }
      var reader = OutcomeEntries.Reader(entries)
      var lines: [UInt32] = []
      while let entry = try reader.next() { lines.append(UInt32(clamping: entry.line)) }
      var stretches: [ClosedRange<UInt32>] = []
      for line in lines.sorted() {
        if let last = stretches.last, line - last.upperBound <= Self.gap {
          stretches[stretches.count - 1] = last.lowerBound...line
        } else {
          stretches.append(line...line)
        }
      }
      return stretches.map { StoredLines(run: run, lines: $0) }
    }
  }
}
