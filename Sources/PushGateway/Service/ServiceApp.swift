internal import PushWire

/// One app on one connection.
final class ServiceApp {
  let name: String
  let faults: ServiceFaults
  let tokenByteCount: Int?
  /// The number of the connection among the app's, from 1.
  let ordinal: Int
  var injector: RequestFaultInjector
  var delays: DelayClock?
  /// When all of the app's requests are refused, and how.
  private let outage: (begins: Instant, ends: Instant, refusal: ServiceRefusal)?
  /// Counts that have not been reported to the ledger.
  var truth = ServiceTruth()
  /// Hashes of the identifiers accepted since the last report.
  var identifiers: [UInt64] = []

  init(_ name: String, service: SimulatedService, now: Instant) {
    let joined = service.ledger.join(app: name, now: now)
    let rules = service.rules.faults(forTopic: name)
    self.name = joined.name
    ordinal = joined.ordinal
    faults = rules.http2
    tokenByteCount = rules.limits.tokenByteCount
    injector = RequestFaultInjector(rules.http2, connection: joined.ordinal, counts: service.counts)
    outage = rules.http2.outage.map { (joined.firstAt + $0.from, joined.firstAt + $0.from + $0.length, $0.refusal) }
    delays = rules.http2.delay.map { DelayClock($0, seed: joined.ordinal) }
  }

  func outage(now: Instant) -> ServiceRefusal? {
    guard let outage, now >= outage.begins, now < outage.ends else { return nil }
    return outage.refusal
  }

  func report(to ledger: ServiceLedger) {
    if truth == ServiceTruth(), identifiers.isEmpty { return }
    ledger.add(truth, identifiers: identifiers, to: name)
    truth = ServiceTruth()
    identifiers.removeAll(keepingCapacity: true)
  }
}

/// What follows from topic, push type and credential alone. Computed once for all requests that
/// have the same.
struct ServiceRoute {
  let app: ServiceApp
  let refusal: ServiceRefusal?
  let payloadLimit: Int
  let needsPriorityFive: Bool
}

/// A response that waits for its time.
struct DelayedAnswer {
  let due: Instant
  let streamID: Int32
  let status: UInt16
  let identifier: [UInt8]
  let body: [UInt8]
  /// The notification was accepted. If the response never leaves, it counts as unanswered.
  let isTaken: Bool
  let app: ServiceApp
}

/// Delayed responses by their time, in a binary heap.
struct DelayedAnswers {
  private var heap: [DelayedAnswer] = []

  var nextDue: Instant? { heap.first?.due }
  var all: [DelayedAnswer] { heap }

  mutating func insert(_ answer: DelayedAnswer) {
    heap.append(answer)
    var index = heap.count - 1
    while index > 0, heap[index].due < heap[(index - 1) / 2].due {
      heap.swapAt(index, (index - 1) / 2)
      index = (index - 1) / 2
    }
  }

  mutating func takeFirst(upTo now: Instant) -> DelayedAnswer? {
    guard let first = heap.first, first.due <= now else { return nil }
    remove(at: 0)
    return first
  }

  /// Removes the response of a stream that has ended.
  mutating func cancel(_ streamID: Int32) -> DelayedAnswer? {
    guard let index = heap.firstIndex(where: { $0.streamID == streamID }) else { return nil }
    let answer = heap[index]
    heap.remove(at: index)
    // Cancelling is rare and the heap small, so the heap is rebuilt.
    let rest = heap
    heap.removeAll(keepingCapacity: true)
    for answer in rest { insert(answer) }
    return answer
  }

  mutating func removeAll() { heap.removeAll() }

  private mutating func remove(at position: Int) {
    heap.swapAt(position, heap.count - 1)
    heap.removeLast()
    var index = position
    while true {
      var least = index
      for child in [2 * index + 1, 2 * index + 2] where child < heap.count && heap[child].due < heap[least].due {
        least = child
      }
      if least == index { return }
      heap.swapAt(index, least)
      index = least
    }
  }
}
