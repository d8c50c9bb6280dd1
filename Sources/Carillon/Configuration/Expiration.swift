internal import Foundation

extension PushNotification.Expiration {
  /// Numbers below it are seconds from now, from it on UNIX times: 1,000,000,000 seconds are 31
  /// years, and were 2001.
  private static let firstUnixTime: UInt32 = 1_000_000_000

  /// `0`, a number of seconds from now, a duration such as `2h`, or a UNIX time. Nil for anything
  /// else.
  package init?(parsing text: String) {
    if let number = UInt32(text) {
      self = number < Self.firstUnixTime && number > 0 ? .after(.seconds(Int64(number))) : Self(unixSeconds: number)
    } else if let duration = Quantity.duration(text), duration > .zero {
      self = .after(duration)
    } else {
      return nil
    }
  }

  /// - Parameter unixSeconds: as on the wire; 0: deliver at once or never.
  init(unixSeconds: UInt32) {
    self = unixSeconds == 0 ? .notStored : .at(Date(timeIntervalSince1970: Double(unixSeconds)))
  }

  /// What is sent, in seconds since 1970.
  package func unixSeconds(now: UInt32) -> UInt32 {
    switch self {
    case .notStored: 0
    case .at(let date): max(1, date.wireSeconds)
    case .after(let duration): UInt32(clamping: Int64(now) + duration.expirationSeconds)
    }
  }

  /// The same, with a lifetime shortened by less than 2 %: nothing is delivered late. Single
  /// notifications of the same moment share what they have in common: a time of its own for each
  /// second would make them cost more.
  func sharedUnixSeconds(now: UInt32) -> UInt32 {
    guard case .after(let duration) = self else { return unixSeconds(now: now) }
    let step = max(1, duration.expirationSeconds / 64)
    let end = Int64(now) + duration.expirationSeconds
    return UInt32(clamping: end / step * step)
  }
}

extension Duration {
  /// Whole seconds, rounded up: at least one, and at most what can be sent.
  fileprivate var expirationSeconds: Int64 {
    let (seconds, attoseconds) = components
    guard seconds < Int64(UInt32.max) else { return Int64(UInt32.max) }
    return max(1, seconds + (attoseconds > 0 ? 1 : 0))
  }
}
