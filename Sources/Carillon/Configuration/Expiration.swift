/// How long a notification is worth delivering.
package enum Expiration: Hashable, Sendable {
  /// 0 on the wire: deliver at once or never.
  case doNotStore
  case after(Duration)
  /// Seconds since 1970.
  case at(UInt32)

  /// Numbers below it are seconds from now, from it on UNIX times: 1,000,000,000 seconds are 31
  /// years, and were 2001.
  private static let firstUnixTime: UInt32 = 1_000_000_000

  /// `0`, a number of seconds from now, a duration such as `2h`, or a UNIX time. Nil for anything
  /// else.
  package init?(_ text: String) {
    if let number = UInt32(text) {
      self = number == 0 ? .doNotStore : number < Self.firstUnixTime ? .after(.seconds(Int64(number))) : .at(number)
    } else if let duration = Quantity.duration(text), duration > .zero {
      self = .after(duration)
    } else {
      return nil
    }
  }

  /// What the frame carries.
  package func unixSeconds(now: UInt32) -> UInt32 {
    switch self {
    case .doNotStore: 0
    case .after(let duration):
      UInt32(clamping: Int64(now) + duration.components.seconds + (duration.components.attoseconds > 0 ? 1 : 0))
    case .at(let time): time
    }
  }
}
