/// The number of a record, counted from 1 over the whole life of the journal, through all segments
/// and restarts.
package struct JournalPosition: RawRepresentable, Hashable, Comparable, Sendable, CustomStringConvertible {
  package let rawValue: UInt64

  package init(rawValue: UInt64) { self.rawValue = rawValue }

  /// The position of the first record of a new journal.
  package static let first = JournalPosition(rawValue: 1)

  package static func < (left: JournalPosition, right: JournalPosition) -> Bool { left.rawValue < right.rawValue }

  package var description: String { String(rawValue) }
}
