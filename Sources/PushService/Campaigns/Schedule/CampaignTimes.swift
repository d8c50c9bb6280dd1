package import Foundation
package import PushStore

/// When a campaign may send. A value: it has no clock, and knows of the app only what it is told.
package struct CampaignTimes: Sendable {
  package struct App: Sendable {
    package var zone: TimeZone
    package var quietHours: QuietHours?
    /// Of users, in any campaigns to stored devices. Empty: none.
    package var caps: [FrequencyCap] = []
    /// Of users who get none of its campaigns. Nil: none.
    package var holdoutPercent: Int?
    /// Of all its uploads together.
    package var audienceByteLimit = Int64.max
    /// Of campaigns that have not ended.
    package var openCampaignLimit = Int.max
    /// False: the settings above are no app's.
    package var isConfigured = true

    package init(zone: TimeZone = .gmt, quietHours: QuietHours? = nil) {
      (self.zone, self.quietHours) = (zone, quietHours)
    }
  }

  /// How the campaign's app is at present, and what this process has of the campaign.
  package struct Conditions: Hashable, Sendable {
    package var isConfigured = true
    /// Why the app has stopped or is suspended.
    package var stopReason: String?
    /// It was removed while it sent this campaign, and has come back with other settings.
    package var hasOtherSettings = false
    /// Only the next process can resume a part of the campaign.
    package var hasLostPart = false
  }

  /// Why a campaign cannot send at present.
  package struct Obstacle: Hashable, Sendable {
    package var reason: String
    /// Nil: not known.
    package var until: StoreInstant?
  }

  package struct Part: Hashable, Sendable {
    package var number: Int
    package var dueAt: StoreInstant
    /// Time zones of whom it is for, by name; an empty name is the app's. Empty: quiet hours do not
    /// concern it on its own.
    package var zones: [String] = []
  }

  /// Which parts of a campaign may send at a moment.
  package struct PartSchedule: Hashable, Sendable {
    package var sending: Set<Int> = []
    /// Their time has come, and quiet hours of their zones hold them back.
    package var inQuietHours: Set<Int> = []
    /// When the first of those resumes.
    package var quietUntil: StoreInstant?
    /// When to look again; nil: nothing changes by itself.
    package var next: StoreInstant?

    fileprivate mutating func look(at instant: StoreInstant) { next = min(next ?? instant, instant) }
  }

  package let plan: CampaignPlan
  package let app: App
  /// The rules of a time zone by its name; nil if there is none.
  package var rules: @Sendable (String) -> ZoneRules? = { name in TimeZone(identifier: name).map { ZoneRules($0) } }

  /// Quiet hours of several zones have an instant that is quiet in none of them, unless they are
  /// in different parts of the world.
  private static let searchLimit = 8

  package var quietHours: QuietHours? {
    guard !plan.isDryRun else { return nil }
    return switch plan.quietHours {
    case nil: app.quietHours
    case .off?: nil
    case .hours(let hours)?: hours
    }
  }

  /// Why nothing of the campaign can be sent. For quiet hours of parts see ``schedule(_:now:)``.
  package func obstacle(_ conditions: Conditions, now: StoreInstant) -> Obstacle? {
    if plan.isDryRun { return nil }
    guard conditions.isConfigured, app.isConfigured else {
      return Obstacle(reason: "The app is not in the configuration; it resumes when the app is added again.")
    }
    if let reason = conditions.stopReason { return Obstacle(reason: "The app has stopped: \(reason).") }
    if conditions.hasOtherSettings {
      return Obstacle(reason: "The app was removed and has come back with other settings; it resumes after a restart.")
    }
    if conditions.hasLostPart { return Obstacle(reason: "It resumes after the service restarts.") }
    guard !plan.isLocal, let quietHours, let until = quietEnd([""], now: now) else { return nil }
    return Obstacle(reason: "Quiet hours (\(quietHours)) until \(InstantText.text(until)).", until: until)
  }

  /// - Parameter parts: those that have not ended.
  package func schedule(_ parts: [Part], now: StoreInstant) -> PartSchedule {
    var due = PartSchedule()
    if !plan.isLocal, let next = nextQuietTime([""], now: now) { due.look(at: next) }
    for part in parts {
      guard part.dueAt <= now || plan.isDryRun else {
        due.look(at: part.dueAt)
        continue
      }
      if plan.isLocal, let end = quietEnd(part.zones, now: now) {
        due.inQuietHours.insert(part.number)
        due.quietUntil = min(due.quietUntil ?? end, end)
        due.look(at: end)
      } else {
        due.sending.insert(part.number)
        if plan.isLocal, let next = nextQuietTime(part.zones, now: now) { due.look(at: next) }
      }
    }
    return due
  }

  /// Until when a part may be sent that may be sent now.
  func end(of part: Part, now: StoreInstant) -> StoreInstant {
    nextQuietTime(plan.isLocal ? part.zones : [""], now: now) ?? StoreInstant(milliseconds: .max)
  }

  /// When it is quiet in none of the zones any more; nil if that is so now.
  package func quietEnd(_ zones: [String], now: StoreInstant) -> StoreInstant? {
    guard let quietHours else { return nil }
    let zones = zones.map(zone)
    var instant = now.seconds
    for _ in 0..<Self.searchLimit {
      let end = zones.map { quietHours.end(notBefore: instant, $0) }.max() ?? instant
      guard end > instant else { break }
      instant = end
    }
    return instant > now.seconds ? StoreInstant(milliseconds: instant * 1000) : nil
  }

  /// When quiet hours begin next in one of the zones; nil without quiet hours.
  package func nextQuietTime(_ zones: [String], now: StoreInstant) -> StoreInstant? {
    guard let quietHours else { return nil }
    return zones.map { quietHours.nextBeginning(after: now.seconds, zone($0)) }.min()
      .map { StoreInstant(milliseconds: $0 * 1000) }
  }

  /// Where the devices of a local send belong that begins now.
  package func localPlan(_ send: LocalSend, now: StoreInstant) -> LocalSendPlan {
    LocalSendPlan(send, quietHours: quietHours, now: now.seconds, appZone: ZoneRules(app.zone), rules: rules)
  }

  private func zone(_ name: String) -> ZoneRules { (name.isEmpty ? nil : rules(name)) ?? ZoneRules(app.zone) }
}

extension LocalSend {
  /// In the first time zone of the world: clocks are at most so far ahead of UTC.
  package var earliest: StoreInstant { StoreInstant(milliseconds: (local - 14 * 3600) * 1000) }
  /// In the last one.
  package var latest: StoreInstant { StoreInstant(milliseconds: (local + 12 * 3600) * 1000) }
}

extension CampaignPlan {
  /// When a started campaign begins. A local send begins with the first time zone of the world.
  package var dueAt: StoreInstant {
    if isDryRun { return StoreInstant(milliseconds: 0) }
    return switch start {
    case .now: StoreInstant(milliseconds: 0)
    case .at(let instant): instant
    case .local(let send): send.earliest
    }
  }
}

extension ZoneRules {
  package init(_ zone: TimeZone) {
    self.init { instant in Int64(zone.secondsFromGMT(for: Date(timeIntervalSince1970: Double(instant)))) }
  }
}

extension StoreInstant {
  /// Whole seconds since 1970.
  package var seconds: Int64 { milliseconds / 1000 }

  func after(milliseconds: Int64) -> StoreInstant { StoreInstant(milliseconds: self.milliseconds + milliseconds) }

  package func after(seconds: Int64) -> StoreInstant { StoreInstant(milliseconds: milliseconds + seconds * 1000) }
}
