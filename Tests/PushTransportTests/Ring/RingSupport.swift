internal import PushTransport
internal import PushWire
internal import Support

/// A notification as a test puts it into a ring and expects it back.
struct Sample: Hashable {
  var ordinal: UInt64
  var campaign: UInt32
  var expiration: UInt32?
  var priority: UInt8?
  var token: [UInt8]
  var identifier: APNSIdentifier?
  var collapse: [UInt8] = []
  var payload: [UInt8]

  init(
    ordinal: UInt64, campaign: UInt32 = 1, expiration: UInt32? = nil, priority: UInt8? = nil, token: [UInt8],
    payload: [UInt8] = []
  ) {
    self.ordinal = ordinal
    self.campaign = campaign
    self.expiration = expiration
    self.priority = priority
    self.token = token
    self.payload = payload
  }

  /// A copy of what a ring holds.
  init(_ record: RingRecord) {
    ordinal = record.ordinal
    campaign = record.campaign
    expiration = record.expiration
    priority = record.priority
    token = unsafe Array(record.token)
    identifier = record.identifier
    collapse = unsafe Array(record.collapseIdentifier)
    payload = unsafe Array(record.payload)
  }

  /// A notification of exactly `blockCount` blocks, with bytes that differ from its neighbours'.
  init(ordinal: UInt64, blockCount: Int) {
    let size = blockCount * NotificationRing.blockByteCount - 32
    let tokenByteCount = min(100, size)
    self.init(
      ordinal: ordinal, token: (0..<tokenByteCount).map { UInt8(truncatingIfNeeded: UInt64($0) &* 7 &+ ordinal) },
      payload: (0..<min(5120, size - tokenByteCount)).map { UInt8(truncatingIfNeeded: UInt64($0) &* 13 &+ ordinal) })
    // Only its own headers make it any larger.
    let rest = size - tokenByteCount - payload.count
    collapse = [UInt8](repeating: 0x63, count: min(64, rest))
    if rest > 64 { identifier = APNSIdentifier(high: ordinal, low: 1) }
  }

  var blockCount: Int {
    RingRecord.blockCount(
      tokenByteCount: token.count, payloadByteCount: (identifier == nil ? 0 : 16) + collapse.count + payload.count)
  }

  func append(to claim: inout RingClaim) -> Bool {
    let header = RingRecord.Header(ordinal: ordinal, campaign: campaign, expiration: expiration, priority: priority)
    return unsafe token.withUnsafeBytes { token in
      unsafe payload.withUnsafeBytes { payload in
        guard identifier != nil || !collapse.isEmpty else {
          return unsafe claim.append(header, token: token, payload: payload)
        }
        return withOwnHeaders(identifier: identifier, collapse: collapse) {
          unsafe claim.append(header, token: token, headers: $0, payload: payload)
        }
      }
    }
  }
}

extension NotificationRing {
  /// Publishes one notification in a claim of its own. Returns false if there is no room.
  func add(_ sample: Sample) -> Bool {
    guard var claim = claim(minimum: sample.blockCount, maximum: sample.blockCount) else { return false }
    let fits = sample.append(to: &claim)
    claim.publish()
    return fits
  }

  /// Publishes `blockCount` blocks of padding in as many claims as needed.
  func addPadding(_ blockCount: Int) {
    var left = blockCount
    while left > 0, let claim = claim(minimum: 1, maximum: left) {
      left -= claim.remainingBlockCount
      claim.publish()
    }
  }

  /// Sends and settles everything published.
  func settleEverything() {
    setSent(published)
    settle(through: published)
  }

  /// The notifications that start in `from..<published`.
  func samples(from: UInt64) -> [Sample] {
    var samples: [Sample] = []
    forEachNotification(from: from, to: published) { _, record in samples.append(Sample(record)) }
    return samples
  }

  /// Position, length and kind of each record in `from..<published`.
  func layout(from: UInt64) -> [Placed] {
    var places: [Placed] = []
    var position = from
    while position < published {
      let record = record(at: position)
      places.append(Placed(position: position, blockCount: record.blockCount, isNotification: record.isNotification))
      position += record.blockCount
    }
    return places
  }
}

struct Placed: Hashable {
  var position: UInt64
  var blockCount: UInt64
  var isNotification: Bool
}

/// A claim that stays open until it is published, or until its last reference is released.
final class OpenClaim {
  private var claim: RingClaim?

  init?(_ ring: NotificationRing, minimum: Int, maximum: Int) {
    claim = ring.claim(minimum: minimum, maximum: maximum)
    if claim == nil { return nil }
  }

  var remainingBlockCount: Int? {
    guard let open = claim.take() else { return nil }
    let count = open.remainingBlockCount
    claim = consume open
    return count
  }

  func append(_ sample: Sample) -> Bool {
    guard var open = claim.take() else { return false }
    let fits = sample.append(to: &open)
    claim = consume open
    return fits
  }

  func publish() {
    claim = nil
  }
}
