internal import Foundation
internal import PushStore
internal import Support
internal import Testing

@testable internal import PushService

@Suite("schedules of campaigns")
struct ScheduleTests {
  private static func zone(_ name: String) throws -> ZoneRules { ZoneRules(try #require(TimeZone(identifier: name))) }

  private static func local(_ text: String) throws -> Int64 {
    let parts = text.split(separator: "T")
    return try #require(LocalClock.seconds(date: parts[0], time: parts[1]))
  }

  private static func instant(_ text: String) throws -> Int64 { try #require(InstantText.instant(text)).seconds }

  @Test(
    "a local time becomes an instant; one that is skipped is the skip, one that comes twice the first",
    arguments: [
      ("Europe/Berlin", "2026-07-01T09:00", "2026-07-01T09:00:00+02:00"),
      ("Europe/Berlin", "2026-03-29T02:30", "2026-03-29T03:00:00+02:00"),
      ("Europe/Berlin", "2026-10-25T02:30", "2026-10-25T02:30:00+02:00"),
      ("America/New_York", "2026-03-08T02:15", "2026-03-08T03:00:00-04:00"),
      ("America/New_York", "2026-11-01T01:30", "2026-11-01T01:30:00-04:00"),
      // Half an hour of daylight saving, and quarters of an hour.
      ("Australia/Lord_Howe", "2026-10-04T02:10", "2026-10-04T02:30:00+11:00"),
      ("Australia/Lord_Howe", "2026-04-05T01:45", "2026-04-05T01:45:00+11:00"),
      ("Asia/Kathmandu", "2026-05-05T00:00", "2026-05-05T00:00:00+05:45"),
      // A day that was not there at all.
      ("Pacific/Apia", "2011-12-30T12:00", "2011-12-31T00:00:00+14:00"),
      ("Pacific/Kiritimati", "2026-01-01T00:00", "2026-01-01T00:00:00+14:00"),
      ("Pacific/Pago_Pago", "2026-01-01T00:00", "2026-01-01T00:00:00-11:00"),
    ])
  func localTimes(zone: String, local: String, expected: String) throws {
    #expect(try Self.zone(zone).firstInstant(showing: Self.local(local)) == Self.instant(expected))
  }

  @Test("in every zone, the first instant that shows the time or a later one, around every change of clocks")
  func allZones() throws {
    let seed = SeededGenerator.freshSeed()
    var random = SeededGenerator(seed: seed)
    let start = try Self.instant("2024-01-01T00:00:00Z")
    for name in TimeZone.knownTimeZoneIdentifiers {
      guard let system = TimeZone(identifier: name) else { continue }
      let zone = ZoneRules(system)
      var times = (0..<3).map { _ in start + Int64.random(in: 0..<4 * 366 * 86_400, using: &random) }
      var change = system.nextDaylightSavingTimeTransition(after: Date(timeIntervalSince1970: Double(start)))
      while let date = change, date.timeIntervalSince1970 < Double(start + 2 * 366 * 86_400) {
        let shown = zone.local(at: Int64(date.timeIntervalSince1970))
        times += [-5400, -3600, -1800, -1, 0, 1, 1800, 5400].map { shown + $0 }
        change = system.nextDaylightSavingTimeTransition(after: date)
      }
      for time in times {
        let found = zone.firstInstant(showing: time)
        #expect(zone.local(at: found) >= time, "seed \(seed), \(name), \(time)")
        // No earlier instant shows it, looked for by steps that no change fits between.
        for earlier in stride(from: found - 1, to: found - 3 * 3600, by: -600) {
          #expect(zone.local(at: earlier) < time, "seed \(seed), \(name), \(time): already at \(earlier)")
        }
      }
    }
  }

  @Test("quiet hours end at the first instant that is not quiet, in every zone")
  func quietHours() throws {
    let seed = SeededGenerator.freshSeed()
    var random = SeededGenerator(seed: seed)
    let start = try Self.instant("2026-01-01T00:00:00Z")
    for name in TimeZone.knownTimeZoneIdentifiers {
      let zone = try Self.zone(name)
      for _ in 0..<4 {
        let from = Int64.random(in: 0..<1440, using: &random) * 60
        let to = Int64.random(in: 0..<1440, using: &random) * 60
        guard let hours = QuietHours(from: from, to: to) else { continue }
        let instant = start + Int64.random(in: 0..<366 * 86_400, using: &random)
        let end = hours.end(notBefore: instant, zone)
        let note: Comment = "seed \(seed), \(name), \(hours), \(instant)"
        #expect(end >= instant, note)
        #expect(end <= instant + 26 * 3600, note)
        #expect(!hours.contains(local: zone.local(at: end)), note)
        for earlier in stride(from: instant, to: end, by: 1800) {
          #expect(hours.contains(local: zone.local(at: earlier)), note)
        }
      }
    }
  }

  @Test("quiet hours that begin in an hour that clocks show twice begin twice")
  func repeatedBeginning() throws {
    let start = try Self.instant("2026-01-01T00:00:00Z")
    var count = 0
    for name in TimeZone.knownTimeZoneIdentifiers {
      let zone = try Self.zone(name)
      for change in zone.changes(after: start, through: start + 366 * 86_400)
      where zone.local(at: change) < zone.local(at: change - 1) {
        // Quiet for the last minute before the change, and when clocks show that minute again.
        let shown = zone.local(at: change - 1)
        let from = (shown - 59) % 86_400
        guard let hours = QuietHours(from: from, to: (from + 8 * 3600) % 86_400) else { continue }
        count += 1
        let note: Comment = "\(name), \(hours), \(change)"
        #expect(!hours.contains(local: zone.local(at: change)), note)
        let next = hours.nextBeginning(after: change, zone)
        #expect(hours.contains(local: zone.local(at: next)), note)
        #expect(next == change + shown - 59 - zone.local(at: change), note)
      }
    }
    #expect(count > 50)
  }

  @Test("hours, dates and instants are read strictly")
  func texts() {
    #expect(QuietHours("22:00-08:00")?.description == "22:00-08:00")
    for text in ["", "22:00", "22:00-22:00", "24:00-08:00", "2:00-8:00", "22:00-08:00-09:00", "22:60-08:00"] {
      #expect(QuietHours(text) == nil, "\(text)")
    }
    for text in [
      "2026-01-01T09:00:00", "2026-01-01 09:00:00Z", "2026-13-01T09:00:00Z", "2026-02-29T09:00:00Z",
      "2026-01-01T24:00:00Z", "2026-01-01T09:00:00+1:00", "2026-01-01T09:00:00+24:00", "tomorrow",
    ] {
      #expect(InstantText.instant(text) == nil, "\(text)")
    }
    #expect(InstantText.instant("1970-01-01T01:00:00.25+01:00")?.milliseconds == 250)
    #expect(InstantText.instant("2024-02-29t00:00:00z")?.seconds == 1_709_164_800)
  }
}
