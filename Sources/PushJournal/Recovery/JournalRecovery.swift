/// What recovery found in a journal's directory.
package struct JournalRecovery: Hashable, Sendable {
  /// One segment.
  package struct Segment: Hashable, Sendable {
    package let name: String
    package let number: UInt64
    /// The length of the file in bytes, before a torn tail was cut off.
    package let byteCount: Int
    /// The positions of its records; empty if it has none.
    package let records: Range<UInt64>
  }

  /// The end of the last segment, half written at a crash. As far as the journal knows, none of it
  /// had been acknowledged.
  package struct TornTail: Hashable, Sendable {
    package let segment: String
    /// Where the last whole frame ends. The segment is cut off here.
    package let offset: Int
    package let byteCount: Int
    /// Sound frames behind the torn place. They were written but never synced; a disk may write in
    /// any order.
    package let frameCount: Int
  }

  package internal(set) var segments: [Segment] = []
  package internal(set) var recordCount = 0
  /// The position of the next record.
  package internal(set) var next = JournalPosition.first
  /// The last position of ``Journal/release(before:)`` that the files contain.
  package internal(set) var released = JournalPosition(rawValue: 0)
  package internal(set) var tornTail: TornTail?
  /// Whether the journal was closed properly.
  package internal(set) var isClosed = false
  /// Whether the process that wrote the last records closed the journal properly. Later processes
  /// may have opened it and ended without writing a record.
  package internal(set) var recordsAreClosed = false
  /// Places that a crash does not explain. Empty unless damage is skipped.
  package internal(set) var damage: [JournalDamage] = []
  /// Bytes of segments that were skipped because of damage.
  package internal(set) var lostByteCount = 0
  /// The number of records that are known to be missing, by their positions. What was lost behind
  /// the last sound frame is not known.
  package internal(set) var lostRecordCount: UInt64 = 0

  package init() {}
}
