/// One notification as its lane's machine knows it: its place in the ring, and what it has been through.
package struct RequestEntry: Hashable, Sendable {
  /// Where it starts and ends in the ring.
  package let position: UInt64
  package let end: UInt64
  /// Of its records in this app's rings.
  package let campaign: UInt32
  /// An earlier request that got no answer may have delivered it.
  package internal(set) var isInDoubt: Bool
  /// Attempts: requests that were answered with "not now" while others got final answers, or not at all.
  var tries: UInt16 = 0
  /// Such requests, whether they count as attempts or not: the next wait is longer.
  var deferrals: UInt8 = 0
  /// It waits because its device token has had too many requests.
  var isPaced = false
  /// The number of the lane's next request when this was last answered with "not now"; 0: never.
  ///
  /// Each kind of failure has a mark of its own: good answers between two different kinds are no
  /// evidence about either.
  var putOffMark: UInt64 = 0
  /// The same when a request for it was last turned away without being processed.
  var turnedAwayMark: UInt64 = 0
  /// The same when it was last alone on a connection that was cut.
  var cutMark: UInt64 = 0
  /// Requests in a row that the peer says it has not looked at.
  var refusals: UInt8 = 0
  /// Such requests that the peer turned away one by one, while it answered others.
  var refusedStreams: UInt16 = 0
  /// It was alone in flight on so many connections that were cut.
  var soloCuts: UInt8 = 0
  /// A request without it has been answered between two such connections. It is condemned when
  /// another one is answered since; if a connection ends before that, an outage has begun.
  var awaitsControl = false

  package init(position: UInt64, end: UInt64, campaign: UInt32, isInDoubt: Bool) {
    self.position = position
    self.end = end
    self.campaign = campaign
    self.isInDoubt = isInDoubt
  }

  /// It has been put off once more. If a request that was sent after the last time has got a final answer,
  /// the service was well: both count.
  mutating func countDeferral(lastGoodSerial: UInt64) {
    guard putOffMark > 0, lastGoodSerial >= putOffMark else { return }
    tries = tries == 0 ? 2 : tries + 1
  }

  /// The same for a request that was turned away without being processed.
  mutating func countRefusedStream(lastGoodSerial: UInt64) {
    guard turnedAwayMark > 0, lastGoodSerial >= turnedAwayMark else { return }
    refusedStreams = refusedStreams == 0 ? 2 : refusedStreams + 1
  }
}

/// Requests on their way, by tag, and in the order in which their time runs out.
///
/// The slots stay while requests come and go: nothing is allocated for one in a steady state.
struct RequestsInFlight {
  private struct Slot {
    var entry = RequestEntry(position: 0, end: 0, campaign: 0, isInDoubt: false)
    /// Tells a request from others that had the slot before; 0: free.
    var serial: UInt64 = 0
    var streamID: Int32 = 0
    var submittedAt = Instant.start
    /// Neighbours in the order of submission; of free slots the next one. −1: none.
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

  /// The number of the request that is submitted next.
  var nextSerial: UInt64 { serial }

  static func serial(of tag: UInt64) -> UInt64 { tag >> slotBits }

  /// The tag of the request that is submitted next: the slot's number below, a serial number above.
  var nextTag: UInt64 {
    let slot = firstFree >= 0 ? Int(firstFree) : slots.count
    precondition(slot < 1 << Self.slotBits, "no peer is asked to keep so many streams open")
    return serial << Self.slotBits | UInt64(slot)
  }

  mutating func insert(_ entry: RequestEntry, streamID: Int32, now: Instant) {
    if firstFree < 0 {
      firstFree = Int32(slots.count)
      slots.append(Slot())
    }
    let index = firstFree
    firstFree = slots[Int(index)].next
    slots[Int(index)] = Slot(entry: entry, serial: serial, streamID: streamID, submittedAt: now, previous: last, next: -1)
    serial += 1
    if last >= 0 { slots[Int(last)].next = index } else { first = index }
    last = index
    count += 1
  }

  /// Takes a request out; nil if the tag is of one that has gone.
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

  /// The request that has waited longest.
  var oldest: (tag: UInt64, streamID: Int32, submittedAt: Instant)? {
    guard first >= 0 else { return nil }
    let slot = slots[Int(first)]
    return (slot.serial << Self.slotBits | UInt64(first), slot.streamID, slot.submittedAt)
  }

  /// Gives the memory back, if nothing is on its way.
  mutating func release() {
    guard count == 0, !slots.isEmpty else { return }
    slots = []
    firstFree = -1
  }
}

/// Notifications that will be sent again: those whose time has come, and the others by their time.
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
  /// When one of those that wait will be ready.
  var nextAt: Instant? { waiting.items.first.map { Instant(nanoseconds: $0.key) } }

  /// In the order of the ring, but after those that have used fewer attempts: whatever kept this one from
  /// its outcome may be about it alone.
  mutating func append(_ entry: RequestEntry) {
    ready.insert(Item(key: UInt64(min(entry.tries, 255)) << 55 | entry.position, entry: entry))
  }

  mutating func append(_ entry: RequestEntry, at: Instant) {
    waiting.insert(Item(key: at.nanoseconds, entry: entry))
  }

  mutating func removeNext() {
    ready.removeFirst()
  }

  /// What has waited long enough becomes ready.
  mutating func move(now: Instant) {
    while let first = waiting.items.first, first.key <= now.nanoseconds {
      waiting.removeFirst()
      append(first.entry)
    }
  }

  /// What satisfies `condition` waits no longer.
  mutating func hasten(where condition: (RequestEntry) -> Bool) {
    let all = exchange(&waiting.items, with: [])
    for item in all {
      if condition(item.entry) { append(item.entry) } else { waiting.insert(item) }
    }
  }

  /// Of those that wait, the one whose time comes first and that satisfies `condition` becomes ready.
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

  /// Gives the memory back, if nothing waits.
  mutating func release() {
    if isEmpty { self = RetryQueue() }
  }

  /// A binary heap: the least key first.
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
        for child in [2 * parent + 1, 2 * parent + 2] where child < items.count && items[child].key < items[least].key { least = child }
        guard least != parent else { return }
        items.swapAt(parent, least)
        parent = least
      }
    }
  }
}
