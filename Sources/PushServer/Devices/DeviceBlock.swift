internal import Carillon
internal import PushService
internal import PushStore
internal import PushWire
internal import Synchronization

/// Lines of an import that are sorted before they are stored.
///
/// Tokens come in random order, so each new one changes another page of its index. In the order of
/// tokens, neighbours change the same page.
struct DeviceBlock: Sendable {
  private(set) var devices: [DeviceRegistration] = []
  /// Of their lines.
  private var byteCount = 0
  private var replacesTokens = false
  private let beganAt: Instant
  private let place: DeviceBlockPlace?

  /// Without a place.
  static let portionLimit = 1_000
  /// Of devices that are not in their order yet.
  static let noID = StoredUUID(high: 0, low: 0)
  /// About 15 MB of memory for usual devices.
  private static let limit = 65_536
  /// Devices with long tags take several times as much memory as their lines.
  private static let byteCountLimit = 8 << 20
  /// A slow upload is stored as it comes.
  private static let age = Duration.seconds(1)

  /// - Parameter place: nil: only a small block may be held.
  init(place: DeviceBlockPlace?, beganAt: Instant) { (self.place, self.beganAt) = (place, beganAt) }

  mutating func add(_ device: DeviceRegistration, byteCount: Int) {
    devices.append(device)
    self.byteCount += byteCount
    if device.replacedToken != nil { replacesTokens = true }
  }

  var isFull: Bool {
    devices.count >= (place == nil ? Self.portionLimit : Self.limit) || byteCount >= Self.byteCountLimit
  }

  func isDue(now: Instant) -> Bool { !devices.isEmpty && now.since(beganAt) >= Self.age }

  /// Gives the devices their order and their ids. What is said of the same token keeps its order.
  /// If a line names another device's token, all lines keep theirs.
  ///
  /// - Parameter now: for the ids. In this order, they go to the end of their index.
  mutating func prepare(now: StoreInstant) {
    if !replacesTokens {
      var keys = devices.indices.map { (prefix: Self.prefix(devices[$0].token), index: $0) }
      keys.sort { $0.prefix != $1.prefix ? $0.prefix < $1.prefix : $0.index < $1.index }
      devices = keys.map { devices[$0.index] }
    }
    let run = IntakeRunID(milliseconds: UInt64(clamping: now.milliseconds), random: .random(in: 0 ... .max))
    for index in devices.indices {
      devices[index].newID = StoredUUID(NotificationID(run: run, line: UInt32(truncatingIfNeeded: index)))
    }
  }

  /// Parts that may be stored at the same time: what is said of a token stays together.
  ///
  /// - Parameter count: the most.
  func parts(_ count: Int) -> [ArraySlice<DeviceRegistration>] {
    guard !replacesTokens else { return [devices[...]] }
    var parts: [ArraySlice<DeviceRegistration>] = []
    var start = 0
    for part in 1...max(1, count) {
      var end = devices.count * part / max(1, count)
      guard end > start else { continue }
      while end < devices.count, Self.prefix(devices[end - 1].token) == Self.prefix(devices[end].token) { end += 1 }
      parts.append(devices[start..<end])
      start = end
    }
    return parts
  }

  /// The first bytes of a token, in the order of tokens.
  private static func prefix(_ token: [UInt8]) -> UInt64 {
    var value: UInt64 = 0
    for index in 0..<8 { value = value << 8 | UInt64(index < token.count ? token[index] : 0) }
    return value
  }
}

/// The right to hold a large block. It ends with the last reference.
final class DeviceBlockPlace: Sendable {
  private static let count = Mutex(0)
  /// More imports at the same time are slower, but take no more memory.
  private static let limit = 2

  /// Nil if all places are taken.
  init?() {
    let isFree = Self.count.withLock { count in
      guard count < Self.limit else { return false }
      count += 1
      return true
    }
    guard isFree else { return nil }
  }

  deinit { Self.count.withLock { $0 -= 1 } }
}
