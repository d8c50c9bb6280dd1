package import PushWire

/// A send at the same wall-clock time everywhere.
package struct LocalSend: Hashable, Sendable {
  package enum MissingZone: String, Sendable { case appDefault, skip }
  package enum Past: String, Sendable { case now, skip }

  /// See ``LocalClock``.
  package var local: Int64
  /// What is done for devices whose time zone is not known.
  package var missingTimeZone = MissingZone.appDefault
  /// What is done for devices whose time has passed when the campaign starts.
  package var past = Past.now
  /// It was said, and is not the default.
  package var isPastChosen = false

  package init(local: Int64, missingTimeZone: MissingZone = .appDefault, past: Past = .now) {
    (self.local, self.missingTimeZone, self.past) = (local, missingTimeZone, past)
  }

  package init(_ value: JSONValue, at pointer: String) throws {
    let fields = try FieldReader(value, fields: ["time", "missingTimeZone", "past"], at: pointer)
    let parts = try fields.text("time")?.split(separator: "T", omittingEmptySubsequences: false) ?? []
    guard parts.count == 2, let local = LocalClock.seconds(date: parts[0], time: parts[1]) else {
      throw fields.wrong("time", "It must be a date and a time without offset, such as \"2027-01-31T09:00\".")
    }
    self.local = local
    if let text = try fields.text("missingTimeZone") {
      guard let choice = MissingZone(rawValue: text) else {
        throw fields.wrong("missingTimeZone", "It must be \"appDefault\" or \"skip\".")
      }
      missingTimeZone = choice
    }
    if let text = try fields.text("past") {
      guard let choice = Past(rawValue: text) else { throw fields.wrong("past", "It must be \"now\" or \"skip\".") }
      past = choice
      isPastChosen = true
    }
  }
}
