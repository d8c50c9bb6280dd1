/// When a record counts as durable.
package enum JournalSync: Hashable, Sendable {
  /// As soon as a caller waits for it. One fdatasync serves all callers that wait by then.
  case always
  /// At most this long after the oldest record that is not durable. ``Journal/hurry(_:)`` cuts the
  /// interval short.
  case interval(Duration)
  /// When it has been written to the file. It survives the end of the process but not a loss of
  /// power. Only the end of a segment is synced.
  case never

  package static let intervalDefaultDuration = Duration.milliseconds(10)
  /// `.interval` of 10 ms.
  package static let intervalDefault = JournalSync.interval(intervalDefaultDuration)
}

/// Settings of a journal.
package struct JournalOptions: Sendable {
  package var sync = JournalSync.intervalDefault
  /// A new segment begins when the present one has this many bytes; default 64 MiB.
  package var segmentByteCount = 64 << 20
  /// The largest content of a frame in bytes, default 256 KiB, at most 1 MiB. A record and the
  /// frame's header must fit in it.
  package var blockByteCount = 256 << 10
  /// The number of blocks that are being filled or written, or wait for the disk; default 32.
  /// Multiplied by `blockByteCount` it bounds the memory: 8 MiB.
  package var blockCount = 32
  /// Skip damaged places and count what was lost there. Otherwise opening fails at the first one.
  package var skipsDamage = false

  package init() {}
}
