/// What a deployment remembers besides its journal, as use cases: values in, values out.
///
/// Nothing here assumes one process, or SQLite. Every identifier is made by the caller, so that two
/// machines can make them without having met.
package protocol Store: KeyRecords, IntakeRecords, DeviceRecords, AudienceRecords, AppStateRecords, IdempotencyRecords,
  CampaignRecords, BridgeRecords, FeedbackPolls, ReferenceRecords
{
  /// What a backup copies; nil: the database has a way of its own.
  var file: String? { get }
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
