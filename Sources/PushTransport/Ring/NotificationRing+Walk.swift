internal import PushWire

/// Walking costs a step for each record. It is for the rare cases when an answer names one
/// notification, and never for a batch.
extension NotificationRing: RecordWalk {
  package func notificationCount(from: UInt64, to: UInt64) -> Int {
    var count = 0
    forEachNotification(from: from, to: to) { _, _ in count += 1 }
    return count
  }

  package func position(after count: Int, from: UInt64, limit: UInt64) -> UInt64 {
    var position = from
    var passed = 0
    while position < limit, passed < count {
      let record = record(at: position)
      if record.isNotification { passed += 1 }
      position += record.blockCount
    }
    return position
  }

  package func end(ofNotificationAt position: UInt64, from: UInt64) -> UInt64? {
    var start = from
    while start <= position {
      let record = record(at: start)
      let end = start + record.blockCount
      if start == position { return record.isNotification ? end : nil }
      start = end
    }
    return nil
  }

  /// Calls `body` with position and record of each notification that starts in `from..<to`.
  package func forEachNotification(from: UInt64, to: UInt64, _ body: (UInt64, RingRecord) -> Void) {
    var position = from
    while position < to {
      let record = record(at: position)
      if record.isNotification { body(position, record) }
      position += record.blockCount
    }
  }

  /// Calls `body` with the ordinals of the notifications that start in `from..<to`, in order.
  /// Neighbours with the same ordinal share one call.
  package func forEachOrdinal(from: UInt64, to: UInt64, _ body: (_ ordinal: UInt64, _ count: Int) -> Void) {
    var position = from
    var (ordinal, count) = (UInt64(0), 0)
    while position < to {
      let record = record(at: position)
      position += record.blockCount
      guard record.isNotification else { continue }
      if count > 0, record.ordinal == ordinal {
        count += 1
      } else {
        if count > 0 { body(ordinal, count) }
        (ordinal, count) = (record.ordinal, 1)
      }
    }
    if count > 0 { body(ordinal, count) }
  }
}
