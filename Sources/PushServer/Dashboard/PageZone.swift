internal import Foundation
internal import PushService
internal import PushStore

/// The time zone in which times are shown: an app's own, with UTC beside it, or UTC alone.
struct PageZone: Sendable {
  private let zone: TimeZone
  /// As it stands behind a time of day, such as `Berlin`.
  let name: String
  private var isUTC: Bool { name == "UTC" }

  static let utc = PageZone(nil)

  /// - Parameter identifier: such as `Europe/Berlin`; nil: UTC.
  init(_ identifier: String?) {
    let zone = identifier.flatMap { TimeZone(identifier: $0) }
    let isUTC = zone.map { ["GMT", "UTC", "Etc/UTC"].contains($0.identifier) } ?? true
    self.zone = zone ?? .gmt
    let place = zone?.identifier.split(separator: "/").last?.replacing("_", with: " ")
    name = isUTC ? "UTC" : place.map { String($0) } ?? "UTC"
  }

  private func local(_ instant: StoreInstant) -> String {
    let offset = zone.secondsFromGMT(for: Date(timeIntervalSince1970: Double(instant.milliseconds) / 1000))
    return InstantText.text(instant.after(seconds: Int64(offset)))
  }

  /// Such as `13:42`.
  func timeOfDay(_ instant: StoreInstant) -> Substring { local(instant).dropFirst(11).prefix(5) }

  /// Such as `2026-03-01 13:42 Berlin (12:42 UTC)`.
  func time(_ instant: StoreInstant) -> HTML {
    let (here, there) = (local(instant), InstantText.text(instant))
    let text = here.prefix(16).replacing("T", with: " ")
    guard !isUTC else { return "\(text) UTC" }
    let isSameDay = here.prefix(10) == there.prefix(10)
    let other = isSameDay ? there.dropFirst(11).prefix(5) : there.prefix(16)
    return "\(text) \(name) <span class=\"hint\">(\(other.replacing("T", with: " ")) UTC)</span>"
  }

  /// The time of day, if it is within a day.
  func clock(_ instant: StoreInstant, _ now: StoreInstant) -> HTML {
    abs(instant.milliseconds - now.milliseconds) < StoreInstant.millisecondsPerDay
      ? "\(timeOfDay(instant)) \(name)" : time(instant)
  }
}

extension Dashboard {
  func day(_ instant: StoreInstant) -> HTML { "\(InstantText.text(instant).prefix(10))" }
  /// Of what belongs to no app.
  func time(_ instant: StoreInstant) -> HTML { PageZone.utc.time(instant) }
}
