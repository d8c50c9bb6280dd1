/// When each time zone's devices get a local send, and who is left out. A value without a clock.
package struct LocalSendPlan: Sendable {
  enum Place: Hashable, Sendable {
    /// It is sent at this instant. Clocks are so far east of UTC there then: where they are not,
    /// quiet hours are others.
    case at(Int64, offset: Int64)
    case leftOut(Reason)
  }

  enum Reason: String, Hashable, Sendable {
    case noTimeZone = "no time zone"
    case hasPassed = "local time has passed"
  }

  private let send: LocalSend
  private let quietHours: QuietHours?
  private let now: Int64
  private let rules: @Sendable (String) -> ZoneRules?
  private let missing: Place
  private var places: [String: Place] = [:]

  /// Names that are no time zones can be anything, so no more of them than this are remembered.
  private static let nameLimit = 2_000

  /// - Parameters:
  ///   - now: when the campaign begins.
  ///   - appZone: of devices without a time zone.
  ///   - rules: of a time zone by its name; nil if there is none.
  init(
    _ send: LocalSend, quietHours: QuietHours?, now: Int64, appZone: ZoneRules,
    rules: @escaping @Sendable (String) -> ZoneRules?
  ) {
    (self.send, self.quietHours, self.now, self.rules) = (send, quietHours, now, rules)
    missing =
      send.missingTimeZone == .skip
      ? .leftOut(.noTimeZone) : Self.place(send, quietHours, now: now, in: appZone)
  }

  /// Where a device with this time zone belongs. A name that is no time zone counts as none.
  mutating func place(_ zone: String?) -> Place {
    guard let zone, !zone.isEmpty else { return missing }
    if let known = places[zone] { return known }
    let place = rules(zone).map { Self.place(send, quietHours, now: now, in: $0) } ?? missing
    if places.count < Self.nameLimit { places[zone] = place }
    return place
  }

  func knows(_ zone: String) -> Bool { !zone.isEmpty && rules(zone) != nil }

  private static func place(_ send: LocalSend, _ quiet: QuietHours?, now: Int64, in zone: ZoneRules) -> Place {
    var instant = zone.firstInstant(showing: send.local)
    if instant < now {
      guard send.past == .now else { return .leftOut(.hasPassed) }
      instant = now
    }
    // Quiet hours put off, and drop nothing.
    instant = quiet?.end(notBefore: instant, zone) ?? instant
    return .at(instant, offset: zone.offset(instant))
  }
}
