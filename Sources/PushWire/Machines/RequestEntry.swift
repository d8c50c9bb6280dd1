/// One notification in its lane's machine: its place in the ring and its history.
package struct RequestEntry: Hashable, Sendable {
  /// Where its record starts and ends in the ring.
  package let position: UInt64
  package let end: UInt64
  /// The campaign's number in this app's ring records.
  package let campaign: UInt32
  /// An earlier request without an answer may have delivered it.
  package internal(set) var isInDoubt: Bool
  /// Attempts: requests that were put off, or got no answer, while others got final answers.
  var tries: UInt16 = 0
  /// All such requests, whether they count as attempts or not. They decide the length of the next
  /// pause.
  var deferrals: UInt8 = 0
  /// It waits because its device token has had too many requests.
  var isPaced = false
  /// The number of the lane's next request when this was last put off; 0: never.
  ///
  /// Each kind of failure has its own mark, because good answers between failures of two kinds
  /// prove nothing about either.
  var putOffMark: UInt64 = 0
  /// The same number when a request for it was last refused without being processed.
  var turnedAwayMark: UInt64 = 0
  /// The same number when it was last alone on a connection that was cut.
  var cutMark: UInt64 = 0
  /// Requests in a row that the peer says it has not processed.
  var refusals: UInt8 = 0
  /// Such requests that the peer refused one by one while it answered others.
  var refusedStreams: UInt16 = 0
  /// The number of connections that were cut while this was alone in flight.
  var soloCuts: UInt16 = 0
  /// A request without it has been answered between two such connections. It is rejected when
  /// another one has been answered since. If a connection ends before that, an outage has begun.
  var awaitsControl = false

  package init(position: UInt64, end: UInt64, campaign: UInt32, isInDoubt: Bool) {
    (self.position, self.end, self.campaign, self.isInDoubt) = (position, end, campaign, isInDoubt)
  }

  /// The notification has been put off again. If a request sent after the last time has got a final
  /// answer, the service was working, and both times count as attempts.
  mutating func countDeferral(lastGoodSerial: UInt64) {
    guard putOffMark > 0, lastGoodSerial >= putOffMark else { return }
    tries = tries == 0 ? 2 : tries + 1
  }

  /// The same for a request that was refused without being processed.
  mutating func countRefusedStream(lastGoodSerial: UInt64) {
    guard turnedAwayMark > 0, lastGoodSerial >= turnedAwayMark else { return }
    refusedStreams = refusedStreams == 0 ? 2 : refusedStreams + 1
  }
}

/// The requests in flight, by tag and in the order of their time-outs.
///
/// The slots stay while requests come and go, so a steady state allocates nothing.
struct RequestsInFlight {
  private struct Slot {
    var entry = RequestEntry(position: 0, end: 0, campaign: 0, isInDoubt: false)
    /// Distinguishes a request from earlier ones in the slot; 0: free.
    var serial: UInt64 = 0
    var streamID: Int32 = 0
    var submittedAt = Instant.start
    /// The neighbours in the order of submission; for free slots, the next one. −1: none.
    var previous: Int32 = -1
    var next: Int32 = -1
  }

  private var slots: [Slot] = []
  private var firstFree: Int32 = -1
  private var first: Int32 = -1
  private var last: Int32 = -1
  private var serial: UInt64 = 1
  private(set) var count = 0

  private static let slotBits: UInt64 = 16

  /// The number of the next request.
  var nextSerial: UInt64 { serial }

  static func serial(of tag: UInt64) -> UInt64 { tag >> slotBits }

  /// The tag of the next request: the slot's number in the low bits, the serial number in the high
  /// bits.
  var nextTag: UInt64 {
    let slot = firstFree >= 0 ? Int(firstFree) : slots.count
    precondition(slot < 1 << Self.slotBits, "more requests in flight than tags")
    return serial << Self.slotBits | UInt64(slot)
  }

  mutating func insert(_ entry: RequestEntry, streamID: Int32, now: Instant) {
    if firstFree < 0 {
      firstFree = Int32(slots.count)
      slots.append(Slot())
    }
    let index = firstFree
    firstFree = slots[Int(index)].next
    slots[Int(index)] = Slot(
      entry: entry, serial: serial, streamID: streamID, submittedAt: now, previous: last, next: -1)
    serial += 1
    if last >= 0 { slots[Int(last)].next = index } else { first = index }
    last = index
    count += 1
  }

  /// Removes a request; nil if the tag's request has already ended.
  mutating func remove(_ tag: UInt64) -> RequestEntry? {
    guard let index = index(of: tag) else { return nil }
    let slot = slots[index]
    if slot.previous >= 0 { slots[Int(slot.previous)].next = slot.next } else { first = slot.next }
    if slot.next >= 0 { slots[Int(slot.next)].previous = slot.previous } else { last = slot.previous }
    slots[index].serial = 0
    slots[index].next = firstFree
    firstFree = Int32(index)
    count -= 1
    return slot.entry
  }

  func position(of tag: UInt64) -> UInt64? { index(of: tag).map { slots[$0].entry.position } }

  private func index(of tag: UInt64) -> Int? {
    let index = Int(tag & ((1 << Self.slotBits) - 1))
    return index < slots.count && slots[index].serial == Self.serial(of: tag) && slots[index].serial != 0 ? index : nil
  }

  /// The oldest request.
  var oldest: (tag: UInt64, streamID: Int32, submittedAt: Instant)? {
    guard first >= 0 else { return nil }
    let slot = slots[Int(first)]
    return (slot.serial << Self.slotBits | UInt64(first), slot.streamID, slot.submittedAt)
  }

  /// Frees the memory if no request is in flight.
  mutating func release() {
    guard count == 0, !slots.isEmpty else { return }
    slots = []
    firstFree = -1
  }
}

/// Notifications that will be resent: those that are due, and the others by time.
struct RetryQueue {
  private struct Item {
    var key: UInt64
    var entry: RequestEntry
  }

  private var ready = Heap()
  private var waiting = Heap()

  var count: Int { ready.items.count + waiting.items.count }
  var isEmpty: Bool { count == 0 }
  /// The next one to be sent.
  var next: RequestEntry? { ready.items.first?.entry }
  /// When the next waiting notification becomes due.
  var nextAt: Instant? { waiting.items.first.map { Instant(nanoseconds: $0.key) } }

  /// Adds a notification that is due. The order is the ring's, but notifications with fewer
  /// attempts come first, because whatever delayed this one may concern only this one.
  mutating func append(_ entry: RequestEntry) {
    ready.insert(Item(key: UInt64(min(entry.tries, 255)) << 55 | entry.position, entry: entry))
  }

  mutating func append(_ entry: RequestEntry, at: Instant) {
    waiting.insert(Item(key: at.nanoseconds, entry: entry))
  }

  mutating func removeNext() { ready.removeFirst() }

  /// Makes notifications due whose time has come.
  mutating func move(now: Instant) {
    while let first = waiting.items.first, first.key <= now.nanoseconds {
      waiting.removeFirst()
      append(first.entry)
    }
  }

  /// Makes all waiting notifications due that satisfy `condition`.
  mutating func hasten(where condition: (RequestEntry) -> Bool) {
    let all = exchange(&waiting.items, with: [])
    for item in all {
      if condition(item.entry) { append(item.entry) } else { waiting.insert(item) }
    }
  }

  /// Makes the first waiting notification due that satisfies `condition`.
  mutating func hastenFirst(where condition: (RequestEntry) -> Bool) {
    var first: UInt64?
    for item in waiting.items where condition(item.entry) { first = min(first ?? item.key, item.key) }
    guard let key = first else { return }
    var isFound = false
    let all = exchange(&waiting.items, with: [])
    for item in all {
      if !isFound, item.key == key, condition(item.entry) {
        isFound = true
        append(item.entry)
      } else {
        waiting.insert(item)
      }
    }
  }

  /// Frees the memory if no notification waits.
  mutating func release() {
    if isEmpty { self = RetryQueue() }
  }

  /// A binary heap with the smallest key first.
  private struct Heap {
    var items: [Item] = []

    mutating func insert(_ item: Item) {
      items.append(item)
      var child = items.count - 1
      while child > 0, items[child].key < items[(child - 1) / 2].key {
        items.swapAt(child, (child - 1) / 2)
        child = (child - 1) / 2
      }
    }

    mutating func removeFirst() {
      let last = items.removeLast()
      guard !items.isEmpty else { return }
      items[0] = last
      var parent = 0
      while true {
        var least = parent
        for child in [2 * parent + 1, 2 * parent + 2] where child < items.count && items[child].key < items[least].key {
          least = child
        }
        guard least != parent else { return }
        items.swapAt(parent, least)
        parent = least
      }
    }
  }
}
