internal import Carillon
internal import Foundation
internal import PushStore

/// When campaigns of each app begin and rest.
struct CampaignSchedule: Sendable {
  /// What an app's settings say.
  struct App: Sendable {
    var zone = TimeZone.gmt
    var quietHours: QuietHours?
  }

  /// Why a campaign cannot send at present.
  struct Obstacle: Hashable {
    var reason: String
    /// Nil: not known.
    var until: StoreInstant?
  }

  let deployment: Deployment
  let app: @Sendable (String) -> App

  /// The farthest that clocks are ahead of UTC.
  private static let earliestOffset: Int64 = 14 * 3600

  /// When a campaign that was started begins.
  func due(_ plan: CampaignPlan) -> StoreInstant {
    if plan.isDryRun { return StoreInstant(milliseconds: 0) }
    return switch plan.start {
    case .now: StoreInstant(milliseconds: 0)
    case .at(let instant): instant
    case .local(let send): StoreInstant(milliseconds: (send.local - Self.earliestOffset) * 1000)
    }
  }

  func obstacle(_ plan: CampaignPlan, _ id: String, _ live: LiveCampaign, now: StoreInstant) -> Obstacle? {
    if plan.isDryRun { return nil }
    guard let served = try? deployment.app(id) else {
      return Obstacle(reason: "The app is not in the configuration; it goes on when the app is added again.")
    }
    if let reason = served.stopReason { return Obstacle(reason: "The app has stopped: \(reason).") }
    if live.isBusy, deployment.leftByRemovedApps[id] != nil {
      return Obstacle(reason: "The app was removed and has come back with other settings; it goes on after a restart.")
    }
    if live.hasLost { return Obstacle(reason: "It goes on when the service starts again.") }
    let app = app(id)
    // Parts of a local send have been put off to the end of their own quiet hours.
    guard let hours = hours(plan, app), !plan.isLocal else { return nil }
    let second = now.seconds
    let end = hours.end(notBefore: second, ZoneRules(app.zone))
    guard end > second else { return nil }
    let until = StoreInstant(milliseconds: end * 1000)
    return Obstacle(reason: "Quiet hours (\(hours)) until \(InstantText.text(until)).", until: until)
  }

  /// When quiet hours begin next, outside of them; nil without quiet hours.
  func nextQuietTime(_ plan: CampaignPlan, _ id: String, now: StoreInstant) -> StoreInstant? {
    let app = app(id)
    guard let hours = hours(plan, app), !plan.isLocal else { return nil }
    let zone = ZoneRules(app.zone)
    let local = zone.local(at: now.seconds)
    let midnight = local - ((local % 86_400) + 86_400) % 86_400
    let today = zone.firstInstant(showing: midnight + hours.from)
    let next = today > now.seconds ? today : zone.firstInstant(showing: midnight + 86_400 + hours.from)
    return StoreInstant(milliseconds: next * 1000)
  }

  func hours(_ plan: CampaignPlan, _ app: App) -> QuietHours? {
    switch plan.quietHours {
    case nil: app.quietHours
    case .off?: nil
    case .hours(let hours)?: hours
    }
  }
}

extension ZoneRules {
  init(_ zone: TimeZone) {
    self.init { instant in Int64(zone.secondsFromGMT(for: Date(timeIntervalSince1970: Double(instant)))) }
  }
}

extension StoreInstant {
  /// Whole seconds since 1970.
  var seconds: Int64 { milliseconds / 1000 }
}
