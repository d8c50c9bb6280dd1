internal import PushTransport

/// A lane's unsettled notifications are written into the journal again when their old records keep
/// old segments from being deleted.
extension Lane {
  /// Writes what lies in the ring before `end`, one record at a time. Waits for room in the journal
  /// where needed.
  nonisolated func compact(before end: UInt64) {
    loop.execute { self.assumeIsolated { $0.compact(from: $0.ring.settled, before: end) } }
  }

  private func compact(from start: UInt64, before end: UInt64) {
    guard let journal = ring.published >= end ? shared.journal : nil, let journalNumber else { return }
    var position = max(start, ring.settled)
    while position < end {
      let record = ring.record(at: position)
      guard record.isNotification else {
        position += record.blockCount
        continue
      }
      guard let campaign = shared.campaigns[record.campaign]?.journalNumber else {
        // Its campaign has ended and is forgotten. It stays in the ring only because others before
        // it are not settled.
        position += record.blockCount
        continue
      }
      let run = RingRun(
        ring, from: position, before: end, byteCountLimit: journal.recordByteCountLimit - EnqueueHeader.byteCountLimit)
      let header = EnqueueHeader(
        run: JournalledRun(lane: journalNumber, range: position..<run.end, campaign: campaign, count: run.shape.count),
        position: nil, isInDoubt: record.mayHaveArrived, isRewritten: true)
      guard journal.enqueue(header, run.shape, run) else {
        guard journal.failure == nil else { return }
        let rest = position
        journal.whenRoom { [self] in loop.execute { self.assumeIsolated { $0.compact(from: rest, before: end) } } }
        return
      }
      position = run.end
    }
  }
}

/// Neighbouring notifications of a ring, without padding between them, of one campaign and with one
/// degree of doubt.
struct RingRun: EnqueueSource {
  private(set) var shape = EnqueueShape()
  private(set) var end: UInt64
  private let start: UInt64
  private let ring: NotificationRing

  private static let countLimit = 1024

  /// - Parameters:
  ///   - start: where a notification begins.
  ///   - limit: a record that begins before it is included.
  ///   - blockCountLimit: the run takes no more blocks, except for its first notification.
  init(
    _ ring: NotificationRing, from start: UInt64, before limit: UInt64, byteCountLimit: Int, blockCountLimit: Int = .max
  ) {
    (self.ring, self.start) = (ring, start)
    end = start
    let first = ring.record(at: start)
    var byteCountLeft = byteCountLimit - EnqueueShape.fixedByteCount
    while end < limit, shape.count < Self.countLimit {
      let record = ring.record(at: end)
      guard Int(end - start) + Int(record.blockCount) <= blockCountLimit else { return }
      guard record.isNotification, record.campaign == first.campaign, record.mayHaveArrived == first.mayHaveArrived
      else { return }
      let notification = Self.notification(record)
      byteCountLeft -= EnqueueShape.byteCountLimit(of: notification)
      guard shape.count == 0 || byteCountLeft >= 0 else { return }
      shape.add(notification)
      end += record.blockCount
    }
  }

  func forEach(_ body: (EnqueuedNotification) -> Void) {
    var position = start
    while position < end {
      let record = ring.record(at: position)
      body(Self.notification(record))
      position += record.blockCount
    }
  }

  private static func notification(_ record: RingRecord) -> EnqueuedNotification {
    let headers = record.ownHeaders
    return unsafe EnqueuedNotification(
      line: record.ordinal, token: record.token, headersCode: headers.code, headersStart: headers.bytes.baseAddress,
      payload: record.payload)
  }
}
