/// At most so many campaigns in a time.
package struct FrequencyCap: Hashable, Sendable {
  /// In milliseconds, 1 or more.
  package let span: Int64
  /// 1 or more.
  package let count: Int

  package init(span: Int64, count: Int) { (self.span, self.count) = (span, count) }
}

/// Members of an audience who are about to get a campaign, and what the caps of its app are.
package struct AdmissionRequest: Sendable {
  package let app: String
  /// Digests of users, or of devices without one, of 16 bytes, so that the store has no names. Each
  /// once, ascending.
  package private(set) var members: [[UInt8]]
  /// Of the app. Empty: everybody is admitted.
  package var caps: [FrequencyCap]
  /// The most campaigns of a member that are kept: what the caps can ask for, and some more, so
  /// that a campaign that is sent again finds itself.
  package let keptCount: Int
  package let now: StoreInstant
  /// The campaign as an entry of ``Admissions``.
  package let entry: [UInt8]
  /// Nobody is counted.
  package var isTrial = false

  package init(
    app: String, campaign: StoredUUID, members: some Sequence<[UInt8]>, caps: [FrequencyCap], now: StoreInstant
  ) {
    (self.app, self.caps, self.now) = (app, caps, now)
    entry = [campaign.high, campaign.low, UInt64(clamping: now.milliseconds)].flatMap(Admissions.bytes)
    keptCount = (caps.map(\.count).max() ?? 0) + 16
    self.members = Set(members).sorted { $0.lexicographicallyPrecedes($1) }
  }
}

/// The campaigns that one member was given last, the oldest first: for each its identifier and
/// when, 24 bytes.
package struct Admissions: Sendable {
  package static let entryByteCount = 24
  package private(set) var bytes: [UInt8]

  package init(reading bytes: [UInt8] = []) { self.bytes = bytes }

  private var count: Int { bytes.count / Self.entryByteCount }

  /// When the last one was given; the beginning of time: none was.
  package var lastAt: StoreInstant { StoreInstant(milliseconds: Int64(clamping: instant(at: bytes.count - 8))) }

  private func instant(at offset: Int) -> UInt64 {
    bytes[max(0, offset)...].prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
  }

  /// False: its caps are reached. A campaign that the member was given already stays given.
  package mutating func admit(_ request: AdmissionRequest) -> Bool {
    guard !has(request.entry) else { return true }
    guard request.caps.allSatisfy({ !isReached($0, now: request.now) }) else { return false }
    bytes.removeFirst(max(0, count + 1 - request.keptCount) * Self.entryByteCount)
    bytes += request.entry
    return true
  }

  private func has(_ entry: [UInt8]) -> Bool {
    (0..<count).contains { place in
      bytes[(place * Self.entryByteCount)...].prefix(16).elementsEqual(entry.prefix(16))
    }
  }

  /// They came in the order in which they stand: so only the one is looked at that would have to be
  /// too old.
  private func isReached(_ cap: FrequencyCap, now: StoreInstant) -> Bool {
    guard count >= cap.count else { return false }
    return instant(at: (count - cap.count) * Self.entryByteCount + 16) > UInt64(clamping: now.milliseconds - cap.span)
  }

  package static func bytes(_ number: UInt64) -> [UInt8] {
    stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: number >> UInt64($0)) }
  }
}

extension StoreInstant {
  /// In UTC. Old admissions are found by the day, so that a second campaign of the same day does
  /// not change the index.
  package var endOfDay: StoreInstant { StoreInstant(day: day + 1) }
}
