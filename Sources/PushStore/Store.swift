/// What a deployment remembers besides its journal, as use cases: values in, values out.
///
/// Nothing here assumes SQLite. Identifiers that clients see (of keys, notifications, batches,
/// campaigns and devices) are made by the caller, so that two machines can make them without having
/// met. The store itself numbers what has an order: ``StoredDevice/key`` and
/// ``StoredGoneDevice/number``, the places in lists that are read page by page.
///
/// One process owns the open campaigns and the runs of its journal at a time: see "What a store for
/// several machines has to add" in Decisions.
package protocol Store: KeyRecords, IntakeRecords, DeviceRecords, AudienceRecords, AppStateRecords, IdempotencyRecords,
  CampaignRecords, BridgeRecords, FeedbackPolls, ReferenceRecords
{
  /// What a backup copies; nil: the database has a way of its own.
  var file: String? { get }
  /// Of changes that are durable and not yet where they belong, such as a write-ahead log; 0 if the
  /// database has no such thing, or keeps it elsewhere.
  var logByteCount: Int { get }
  func close() throws(StoreError)
}

/// Milliseconds since 1970.
package struct StoreInstant: Hashable, Sendable, Comparable {
  package let milliseconds: Int64

  package init(milliseconds: Int64) { self.milliseconds = milliseconds }

  package static func < (first: StoreInstant, second: StoreInstant) -> Bool {
    first.milliseconds < second.milliseconds
  }
}

/// The 128 bits of a UUID.
package struct StoredUUID: Hashable, Sendable {
  package let high: UInt64
  package let low: UInt64

  package init(high: UInt64, low: UInt64) {
    self.high = high
    self.low = low
  }
}
