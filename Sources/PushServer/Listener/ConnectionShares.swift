/// Which connections a listener has, and whose place a newcomer takes. A value without channels.
///
/// Whoever shows no valid key can take only a part of the places: when it is full, the connection
/// that has been without one for the longest time makes room. So many connections of clients that
/// never ask, or never read, keep nobody with a key from being served.
struct ConnectionShares<ID: Hashable> {
  struct Limits: Hashable {
    /// Of all connections.
    var all = Int.max
    var perAddress = Int.max
    /// Of those that have shown no valid key.
    var keyless = Int.max
  }

  enum Arrival: Hashable {
    /// The address has its share.
    case refused
    /// The connection that makes room; nil: there was room.
    case admitted(closing: ID?)
  }

  private struct Connection {
    let address: String
    /// Its place among those without a key; nil: it has one.
    var turn: UInt64?
  }

  let limits: Limits
  private var connections: [ID: Connection] = [:]
  private var counts: [String: Int] = [:]
  private var keylessCount = 0
  /// Connections without a key, the oldest first, and some that have one by now or are gone.
  private var order: [(id: ID, turn: UInt64)] = []
  private var head = 0
  private var nextTurn: UInt64 = 0

  init(_ limits: Limits) { self.limits = limits }

  var isFull: Bool { connections.count >= limits.all }

  mutating func add(_ id: ID, from address: String) -> Arrival {
    guard counts[address, default: 0] < limits.perAddress else { return .refused }
    let oldest = keylessCount >= limits.keyless ? takeOldest() : nil
    connections[id] = Connection(address: address)
    counts[address, default: 0] += 1
    becomeKeyless(id)
    return .admitted(closing: oldest)
  }

  /// A request of the connection has shown whether it has a valid key.
  mutating func note(_ id: ID, hasKey: Bool) {
    guard let connection = connections[id], (connection.turn == nil) != hasKey else { return }
    if hasKey {
      connections[id]?.turn = nil
      keylessCount -= 1
    } else {
      becomeKeyless(id)
    }
  }

  mutating func remove(_ id: ID) {
    guard let connection = connections.removeValue(forKey: id) else { return }
    if connection.turn != nil { keylessCount -= 1 }
    let left = (counts[connection.address] ?? 1) - 1
    counts[connection.address] = left > 0 ? left : nil
  }

  private mutating func becomeKeyless(_ id: ID) {
    connections[id]?.turn = nextTurn
    order.append((id, nextTurn))
    nextTurn += 1
    keylessCount += 1
    // At most as many that have left the order as are in it.
    guard order.count > 2 * keylessCount + 64 else { return }
    order = order.dropFirst(head).filter { connections[$0.id]?.turn == $0.turn }
    head = 0
  }

  /// Removes the one that has been without a key for the longest time.
  private mutating func takeOldest() -> ID? {
    while head < order.count {
      let (id, turn) = order[head]
      head += 1
      guard connections[id]?.turn == turn else { continue }
      remove(id)
      return id
    }
    return nil
  }
}
