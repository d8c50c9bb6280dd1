internal import PushWire
internal import Synchronization

/// Bounds the memory for the bodies of all requests while they arrive, for large ones until they
/// are served, and for large answers until they are sent, so that concurrent clients cannot exhaust
/// it.
///
/// A key has a share, and bodies of at most 64 KiB have a part that large ones never take: clients
/// that withhold large bodies delay neither other keys nor their own small requests.
final class BodyMemory: Sendable {
  /// Why there is no room for more of a body.
  enum Refusal: Error, Hashable {
    /// The key has its share.
    case share
    /// All keys together have what there is.
    case full
  }

  private struct Part {
    let limit: Int
    var used = 0
    /// By owner: bytes, and how many bodies they are of.
    var owners: [String: (byteCount: Int, bodyCount: Int)] = [:]

    init(limit: Int) { self.limit = limit }

    /// One body may be as large as all there is: the share bounds those that come beside it.
    mutating func take(_ byteCount: Int, _ owner: String, isFirst: Bool) -> Refusal? {
      var own = owners[owner] ?? (0, 0)
      let bodyCount = own.bodyCount + (isFirst ? 1 : 0)
      guard bodyCount == 1 || own.byteCount + byteCount <= limit / BodyMemory.shareCount else { return .share }
      guard used + byteCount <= limit else { return .full }
      own = (own.byteCount + byteCount, bodyCount)
      owners[owner] = own
      used += byteCount
      return nil
    }

    mutating func give(_ byteCount: Int, _ owner: String) {
      guard let own = owners[owner] else { return }
      used -= byteCount
      owners[owner] = own.bodyCount > 1 ? (own.byteCount - byteCount, own.bodyCount - 1) : nil
    }
  }

  private struct State {
    var small: Part
    var large: Part
  }

  /// A body up to this size is a small one.
  static let smallByteCount = 64 << 10
  private static let shareCount = 4
  /// The part of the memory that only small bodies take.
  private static let reservePart = 8

  /// Of the whole process: 256 MiB.
  static let shared = BodyMemory(limit: 256 << 20)

  private let state: Mutex<State>

  init(limit: Int) {
    let reserve = limit / Self.reservePart
    state = Mutex(State(small: Part(limit: reserve), large: Part(limit: limit - reserve)))
  }

  /// One body. What it takes is free again with its end.
  struct Body: ~Copyable {
    private let memory: BodyMemory
    private let owner: String
    private var isLarge: Bool
    private var byteCount = 0
    private var isCounted = false

    /// - Parameters:
    ///   - owner: the key.
    ///   - announced: bytes that its request announces.
    init(_ memory: BodyMemory, owner: String, announced: Int) {
      (self.memory, self.owner) = (memory, owner)
      isLarge = announced > BodyMemory.smallByteCount
    }

    deinit {
      let (isLarge, byteCount, owner) = (isLarge, byteCount, owner)
      guard isCounted else { return }
      memory.state.withLock { state in
        if isLarge { state.large.give(byteCount, owner) } else { state.small.give(byteCount, owner) }
      }
    }

    /// - Throws: there is no room. Nothing of these bytes is counted then.
    mutating func take(_ more: Int) throws(Refusal) {
      let (byteCount, owner, isCounted, wasLarge) = (byteCount, owner, isCounted, isLarge)
      let becomesLarge = wasLarge || byteCount + more > BodyMemory.smallByteCount
      let refusal = memory.state.withLock { state -> Refusal? in
        guard becomesLarge else { return state.small.take(more, owner, isFirst: !isCounted) }
        guard !wasLarge else { return state.large.take(more, owner, isFirst: !isCounted) }
        if let refusal = state.large.take(byteCount + more, owner, isFirst: true) { return refusal }
        if isCounted { state.small.give(byteCount, owner) }
        return nil
      }
      if let refusal { throw refusal }
      isLarge = becomesLarge
      self.isCounted = true
      self.byteCount += more
    }
  }
}

/// Memory that a request or its answer takes, until the last reference is gone.
final class MemoryRoom: Sendable {
  private let body: BodyMemory.Body

  init(_ body: consuming BodyMemory.Body) { self.body = body }
}

/// What a request takes of the memory until it was answered.
final class RequestMemory: Sendable {
  private let rooms = Mutex<[MemoryRoom]>([])

  /// Its body was counted before, and is read again.
  var hasBody: Bool { rooms.withLock { !$0.isEmpty } }

  func hold(_ room: MemoryRoom) { rooms.withLock { $0.append(room) } }
}

/// Whether a request's body arrives fast enough.
///
/// A client that sends a byte now and then would otherwise hold a connection, and what it has sent
/// so far in memory, for as long as it likes: the idle time-out counts from its last byte.
struct UploadPace: Sendable {
  private let beganAt: Instant
  private let allowance: Duration

  /// Below a slow mobile connection.
  static let leastBytesPerSecond = 4096

  /// - Parameter allowance: what a body may take beside the time for its bytes at the lowest rate.
  init(beganAt: Instant, allowance: Duration) { (self.beganAt, self.allowance) = (beganAt, allowance) }

  func isTooSlow(byteCount: Int, now: Instant) -> Bool {
    now.since(beganAt) > allowance + .seconds(byteCount / Self.leastBytesPerSecond)
  }
}
