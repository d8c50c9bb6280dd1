internal import HTTPTypes
package import PushStore

extension CampaignPlan {
  /// A time that passed while the request was on its way, or by a clock that differs a little.
  private static let pastAllowance: Int64 = 300
  /// Clocks are at most so far behind UTC.
  private static let latestOffset: Int64 = 12 * 3600

  /// Refuses a time that has passed long ago: probably a wrong year or zone. A campaign that was to
  /// be sent then would be sent to everybody at once.
  ///
  /// A local time has passed when it has in every time zone. With `past: "now"` its sender has said
  /// what is to become of it.
  ///
  /// - Throws: ``Problem`` with 422.
  package func checkTime(now: StoreInstant) throws {
    switch start {
    case .now: return
    case .at(let instant):
      let late = now.seconds - instant.seconds
      guard late > Self.pastAllowance else { return }
      throw Self.past(
        "sendAt", "sendAt \(InstantText.text(instant)) is \(Self.spoken(late)) ago; leave it out to send now.")
    case .local(let send):
      let late = now.seconds - (send.local + Self.latestOffset)
      guard late > Self.pastAllowance, !(send.isPastChosen && send.past == .now) else { return }
      throw Self.past(
        "localSend/time",
        "The local time passed in the last time zone of the world \(Self.spoken(late)) ago; leave localSend out to send "
          + "now, or say \"past\": \"now\".")
    }
  }

  private static func past(_ field: String, _ detail: String) -> Problem {
    return Problem(.unprocessableContent, "Time has passed", detail, pointer: "/\(field)")
  }

  private static func spoken(_ seconds: Int64) -> String {
    let days = seconds / 86_400
    if days > 0 { return "\(days) \(days == 1 ? "day" : "days")" }
    let (hours, minutes) = (seconds / 3600, seconds / 60)
    return hours > 0 ? "\(hours) h" : "\(minutes) min"
  }
}
