/// When a record counts as durable.
package enum JournalSync: Hashable, Sendable {
  /// As soon as someone waits: one fdatasync serves all who wait by then.
  case always
  /// At most this long after the first record that is not durable yet, all together; at once for
  /// records that hold up their writer: see ``Journal/hurry(_:)``.
  case interval(Duration)
  /// As soon as it is written to the file: it survives the end of the process, but not a loss of power. No fdatasync but at the end of a segment.
  case never

  package static let intervalDefault = JournalSync.interval(.milliseconds(10))
}

package struct JournalOptions: Sendable {
  package var sync = JournalSync.intervalDefault
  /// A segment that has reached this many bytes is followed by a new one.
  package var segmentByteCount = 64 << 20
  /// Content of one frame at most, in bytes; a record and its frame's header must fit in. At most 1 MiB.
  package var blockByteCount = 256 << 10
  /// Blocks that wait for the disk, are being written or being filled: with `blockByteCount`, the bound on memory (8 MiB).
  package var blockCount = 32
  /// Go on over damaged places, and count what was lost there, instead of refusing to open.
  package var skipsDamage = false

  package init() {}
}
