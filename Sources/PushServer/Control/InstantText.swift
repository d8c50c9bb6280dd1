internal import Foundation
internal import PushStore

/// Instants as RFC 3339 has them, in UTC.
enum InstantText {
  static func text(_ instant: StoreInstant) -> String {
    Date(timeIntervalSince1970: Double(instant.milliseconds) / 1000).formatted(
      Date.ISO8601FormatStyle(includingFractionalSeconds: true))
  }
}
