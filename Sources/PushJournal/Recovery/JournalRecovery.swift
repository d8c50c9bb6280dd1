/// What was found in a journal's directory.
package struct JournalRecovery: Hashable, Sendable {
  /// One file.
  package struct Segment: Hashable, Sendable {
    package let name: String
    package let number: UInt64
    /// Length of the file, before a torn tail was cut.
    package let byteCount: Int
    /// Positions of its records; empty if it has none.
    package let records: Range<UInt64>
  }

  /// The end of the last segment, which a crash left half written. Nothing in it had been acknowledged, as far as the journal itself can tell.
  package struct TornTail: Hashable, Sendable {
    package let segment: String
    /// Where the last whole frame ends: the segment is cut here.
    package let offset: Int
    package let byteCount: Int
    /// Sound frames behind the torn place, which were written, but never synced (a disk may write in any order).
    package let frameCount: Int
  }

  package internal(set) var segments: [Segment] = []
  package internal(set) var recordCount = 0
  /// The position that the next record gets.
  package internal(set) var next = JournalPosition.first
  /// What ``Journal/release(before:)`` was last told, as far as it was written down.
  package internal(set) var released = JournalPosition(rawValue: 0)
  package internal(set) var tornTail: TornTail?
  /// Whether the journal was closed in good order.
  package internal(set) var isClosed = false
  /// Whether whoever wrote the last records closed the journal in good order, even if others have opened it since, and ended without writing anything.
  package internal(set) var recordsAreClosed = false
  /// Places that a crash does not explain: empty unless damage was to be skipped.
  package internal(set) var damage: [JournalDamage] = []
  /// Bytes of segments that were passed over because of damage.
  package internal(set) var lostByteCount = 0
  /// Records that are known to be missing, by their positions. Behind the last sound frame of all nothing can be known.
  package internal(set) var lostRecordCount: UInt64 = 0

  package init() {}
}
