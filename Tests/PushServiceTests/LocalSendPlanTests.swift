internal import Foundation
internal import Support
internal import Testing

@testable internal import PushService

@Suite("local sends")
struct LocalSendPlanTests {
  private static func rules(_ name: String) -> ZoneRules? { TimeZone(identifier: name).map { ZoneRules($0) } }

  @Test("every zone's devices are sent at one instant that shows the time, or are left out; none is early or dropped")
  func allZones() throws {
    let seed = SeededGenerator.freshSeed()
    var random = SeededGenerator(seed: seed)
    for _ in 0..<20 {
      let local = 1_700_000_000 + Int64.random(in: 0..<3 * 366 * 86_400, using: &random)
      let past: LocalSend.Past = Bool.random(using: &random) ? .now : .skip
      let missing: LocalSend.MissingZone = Bool.random(using: &random) ? .appDefault : .skip
      let quiet =
        Bool.random(using: &random)
        ? QuietHours(
          from: Int64.random(in: 0..<1440, using: &random) * 60, to: Int64.random(in: 0..<1440, using: &random) * 60)
        : nil
      let now = local + Int64.random(in: -20 * 3600..<20 * 3600, using: &random)
      let app = try #require(Self.rules("Europe/Berlin"))
      var plan = LocalSendPlan(
        LocalSend(local: local, missingTimeZone: missing, past: past), quietHours: quiet, now: now, appZone: app,
        rules: Self.rules)
      for name in TimeZone.knownTimeZoneIdentifiers {
        let zone = try #require(Self.rules(name))
        let note: Comment = "seed \(seed), \(name), \(local), now \(now), \(String(describing: quiet))"
        let first = zone.firstInstant(showing: local)
        switch plan.place(name) {
        case .leftOut(let reason):
          #expect(reason == .hasPassed, note)
          #expect(past == .skip, note)
          #expect(first < now, note)
        case .at(let instant, let offset):
          #expect(offset == zone.offset(instant), note)
          #expect(instant >= max(first, now), note)
          #expect(past == .now || first >= now, note)
          if let quiet {
            #expect(!quiet.contains(local: zone.local(at: instant)), note)
          } else {
            #expect(instant == max(first, now), note)
          }
        }
        #expect(plan.place(name) == plan.place(name), note)
      }
      let unknown = plan.place(nil)
      #expect(plan.place("no/zone") == unknown)
      #expect(plan.place("") == unknown)
      #expect(missing == .skip ? unknown == .leftOut(.noTimeZone) : unknown == plan.place("Europe/Berlin"))
    }
  }
}
