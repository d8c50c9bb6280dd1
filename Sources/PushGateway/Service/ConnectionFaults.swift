internal import PushWire

/// The faults of one connection: what happens after a number of requests that kept the rules, for
/// any app.
struct ConnectionFaults {
  enum Event {
    case cut(ServiceFaults.Cut)
    case goAway(ServiceFaults.GoAway)
    case drain(ServiceFaults.Drain)
    case limit(Int)
    case garbage
  }

  private var events: [(after: Int, event: Event)] = []
  private var position = 0
  private(set) var seen = 0

  /// - Parameters:
  ///   - connection: The number of this connection among its app's, from 1.
  ///   - seen: The requests before the app was known. Events that were due by then are skipped. -1:
  ///     the connection has not begun.
  init(_ faults: ServiceFaults, connection: Int, seen: Int) {
    self.seen = seen
    func add(_ breakpoint: Faults.Breakpoint, _ event: Event) {
      if connection <= breakpoint.connections ?? .max, breakpoint.after > seen {
        events.append((breakpoint.after, event))
      }
    }
    // The order of events that are due at the same request.
    for cut in faults.cut { add(cut.breakpoint, .cut(cut)) }
    if let garbage = faults.garbage { add(garbage, .garbage) }
    if let goAway = faults.goAway { add(goAway.breakpoint, .goAway(goAway)) }
    if let drain = faults.drain { add(drain.breakpoint, .drain(drain)) }
    for change in faults.limits { add(change.breakpoint, .limit(change.limit)) }
    events.sort { $0.after < $1.after }
  }

  /// The connection begins.
  mutating func begin() { seen = 0 }

  /// Counts a request.
  mutating func count() { seen += 1 }

  /// The next event that is due. Each is returned once.
  mutating func next() -> Event? {
    guard position < events.count, events[position].after <= seen else { return nil }
    position += 1
    return events[position - 1].event
  }

  /// The cut that is due at the request that has just been counted.
  func cutDue() -> ServiceFaults.Cut? {
    guard position < events.count, events[position].after <= seen, case .cut(let cut) = events[position].event else {
      return nil
    }
    return cut
  }
}
