internal import Foundation
internal import PushStore
internal import Support
internal import Testing

@testable internal import PushService

@Suite("times of campaigns")
struct CampaignTimesTests {
  private static func instant(_ text: String) throws -> StoreInstant { try #require(InstantText.instant(text)) }

  /// - Parameters:
  ///   - rest: of the campaign, such as `,"dryRun":true`.
  ///   - quiet: the app's quiet hours.
  private static func times(
    _ rest: String = "", zone: String = "Europe/Berlin", quiet: String? = nil
  ) throws -> CampaignTimes {
    let plan = try CampaignPlan(parsing: Array(#"{"name":"x","payload":{"aps":{}}\#(rest)}"#.utf8)[...])
    let app = CampaignTimes.App(
      zone: try #require(TimeZone(identifier: zone)), quietHours: quiet.flatMap { QuietHours($0) })
    return CampaignTimes(plan: plan, app: app)
  }

  private static let local = #","localSend":{"time":"2026-07-01T09:00"}"#

  @Test("a campaign is due at its time, a local send with the first zone of the world, any other at once")
  func due() throws {
    let cases: [(String, String)] = [
      ("", "1970-01-01T00:00:00Z"), (#","sendAt":"2026-07-01T09:00:00+02:00""#, "2026-07-01T07:00:00Z"),
      (Self.local, "2026-07-01T09:00:00+14:00"),
      (#","sendAt":"2026-07-01T09:00:00Z","dryRun":true"#, "1970-01-01T00:00:00Z"),
    ]
    for (rest, expected) in cases {
      #expect(try Self.times(rest).plan.dueAt == Self.instant(expected), "\(rest)")
    }
  }

  @Test("the app's troubles come before quiet hours, which are the campaign's or else the app's; a dry run has none")
  func obstacles() throws {
    typealias Conditions = CampaignTimes.Conditions
    let night = try Self.instant("2026-07-01T23:00:00+02:00")
    let day = try Self.instant("2026-07-01T12:00:00+02:00")
    let own = #","quietHours":"11:00-13:00""#
    let cases: [(String, String?, Conditions, StoreInstant, String?, String?)] = [
      ("", nil, Conditions(), night, nil, nil),
      ("", "22:00-08:00", Conditions(), day, nil, nil),
      ("", "22:00-08:00", Conditions(), night, "Quiet hours (22:00-08:00)", "2026-07-02T08:00:00+02:00"),
      (own, "22:00-08:00", Conditions(), night, nil, nil),
      (own, "22:00-08:00", Conditions(), day, "Quiet hours (11:00-13:00)", "2026-07-01T13:00:00+02:00"),
      (#","quietHours":"off""#, "22:00-08:00", Conditions(), night, nil, nil),
      ("", "22:00-08:00", Conditions(isConfigured: false), night, "not in the configuration", nil),
      ("", "22:00-08:00", Conditions(stopReason: "refused"), night, "has stopped: refused", nil),
      ("", nil, Conditions(hasOtherSettings: true), day, "other settings", nil),
      ("", nil, Conditions(hasLostPart: true), day, "the service restarts", nil),
      (#","dryRun":true"#, "22:00-08:00", Conditions(stopReason: "refused"), night, nil, nil),
      // Each part has quiet hours of its own.
      (Self.local, "22:00-08:00", Conditions(), night, nil, nil),
    ]
    for (rest, quiet, conditions, now, reason, until) in cases {
      let found = try Self.times(rest, quiet: quiet).obstacle(conditions, now: now)
      let end = try until.map(Self.instant)
      #expect(found?.until == end, "\(rest)")
      if let reason { #expect(found?.reason.contains(reason) == true, "\(rest)") } else { #expect(found == nil) }
    }
  }

  @Test("a campaign looks again when quiet hours begin, today or tomorrow")
  func nextQuietTime() throws {
    let times = try Self.times(quiet: "22:00-08:00")
    for (now, next) in [
      ("2026-07-01T12:00:00+02:00", "2026-07-01T22:00:00+02:00"),
      ("2026-07-01T21:59:59+02:00", "2026-07-01T22:00:00+02:00"),
      ("2026-07-01T22:00:00+02:00", "2026-07-02T22:00:00+02:00"),
    ] {
      #expect(try times.nextQuietTime([""], now: Self.instant(now)) == Self.instant(next), "\(now)")
    }
    // Clocks that are set back show the end of these hours again.
    let twice = try Self.times(quiet: "01:00-02:30")
    #expect(
      try twice.nextQuietTime([""], now: Self.instant("2026-10-25T02:45:00+02:00"))
        == Self.instant("2026-10-25T02:00:00+01:00"))
    #expect(try Self.times().nextQuietTime([""], now: Self.instant("2026-07-01T12:00:00Z")) == nil)
  }

  @Test("a part that is late, or lasts long, rests in the quiet hours of its own zone, and goes on after them")
  func lateParts() throws {
    let times = try Self.times(Self.local, quiet: "22:00-08:00")
    let due = try Self.instant("2026-07-01T07:00:00Z")
    let parts = [
      CampaignTimes.Part(number: 0, dueAt: due, zones: ["Europe/Berlin"]),
      CampaignTimes.Part(number: 1, dueAt: due, zones: ["America/New_York"]),
      CampaignTimes.Part(number: 2, dueAt: due, zones: [""]),
      CampaignTimes.Part(number: 3, dueAt: try Self.instant("2026-07-02T16:00:00Z"), zones: ["Asia/Tokyo"]),
      // Of a store that an older version has written.
      CampaignTimes.Part(number: 4, dueAt: due),
    ]
    // 23:00 in Berlin, 17:00 in New York.
    let night = times.schedule(parts, now: try Self.instant("2026-07-01T21:00:00Z"))
    #expect(night.sending == [1, 4])
    #expect(night.inQuietHours == [0, 2])
    #expect(try night.quietUntil == Self.instant("2026-07-02T08:00:00+02:00"))
    // New York's quiet hours begin.
    #expect(try night.next == Self.instant("2026-07-01T22:00:00-04:00"))
    let morning = times.schedule(parts, now: try Self.instant("2026-07-02T06:00:00Z"))
    #expect(morning.sending == [0, 2, 4])
    #expect(morning.inQuietHours == [1])
    #expect(try morning.next == Self.instant("2026-07-02T08:00:00-04:00"))
  }

  @Test("a part whose zones differ rests until it is quiet in none of them")
  func mixedZones() throws {
    let times = try Self.times(Self.local, quiet: "22:00-08:00")
    let now = try Self.instant("2026-07-01T22:30:00+01:00")
    #expect(
      try times.quietEnd(["Europe/London", "Europe/Berlin"], now: now) == Self.instant("2026-07-02T08:00:00+01:00"))
    let morning = try Self.instant("2026-07-02T08:00:00+01:00")
    #expect(times.quietEnd(["Europe/London", "Europe/Berlin"], now: morning) == nil)
  }

  @Test("without quiet hours parts begin at their time, and a dry run's at once")
  func parts() throws {
    let now = try Self.instant("2026-07-01T00:00:00Z")
    let parts = [0, 1, 2].map {
      CampaignTimes.Part(number: $0, dueAt: now.after(seconds: Int64($0 - 1) * 60), zones: ["Europe/Berlin"])
    }
    let due = try Self.times(Self.local).schedule(parts, now: now)
    #expect(due.sending == [0, 1])
    #expect(due.inQuietHours.isEmpty)
    #expect(due.next == parts[2].dueAt)
    let dry = try Self.times(Self.local + #","dryRun":true"#, quiet: "00:00-23:59").schedule(parts, now: now)
    #expect(dry.sending == [0, 1, 2])
    #expect(dry.next == nil)
    // A campaign at one time for all is held as a whole.
    let whole = try Self.times(quiet: "22:00-08:00")
    let night = whole.schedule([CampaignTimes.Part(number: 0, dueAt: now)], now: now)
    #expect(night.sending == [0])
    #expect(try night.next == Self.instant("2026-07-01T22:00:00+02:00"))
  }

  @Test("in every zone, a part never sends while its clocks show quiet hours, and none rests for longer than they last")
  func everyZone() throws {
    let seed = SeededGenerator.freshSeed()
    var random = SeededGenerator(seed: seed)
    let start = try Self.instant("2026-01-01T00:00:00Z")
    for name in TimeZone.knownTimeZoneIdentifiers {
      let zone = ZoneRules(try #require(TimeZone(identifier: name)))
      let (from, length) = (Int64.random(in: 0..<1440, using: &random), Int64.random(in: 1..<1440, using: &random))
      let hours = try #require(QuietHours(from: from * 60, to: (from + length) % 1440 * 60))
      let plan = try Self.times(Self.local).plan
      let times = CampaignTimes(plan: plan, app: CampaignTimes.App(quietHours: hours))
      for _ in 0..<3 {
        let now = start.after(seconds: Int64.random(in: 0..<366 * 86_400, using: &random))
        let part = CampaignTimes.Part(number: 0, dueAt: start, zones: [name])
        let due = times.schedule([part], now: now)
        let note: Comment = "seed \(seed), \(name), \(hours), \(now)"
        #expect(due.sending.isEmpty == hours.contains(local: zone.local(at: now.seconds)), note)
        let next = try #require(due.next, note)
        #expect(next > now, note)
        if let until = due.quietUntil {
          #expect(until == next, note)
          #expect(times.schedule([part], now: until).sending == [0], note)
        } else {
          // It looks again before it would send in quiet hours.
          for second in stride(from: now.seconds, to: next.seconds, by: 1800) {
            #expect(!hours.contains(local: zone.local(at: second)), note)
          }
        }
      }
    }
  }
}
