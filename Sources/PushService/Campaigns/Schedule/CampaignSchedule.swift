package import Carillon
package import PushStore

/// Tells ``CampaignTimes`` how apps are at present.
package struct CampaignSchedule: Sendable {
  package let deployment: Deployment
  package let app: @Sendable (String) -> CampaignTimes.App

  package init(deployment: Deployment, app: @escaping @Sendable (String) -> CampaignTimes.App) {
    (self.deployment, self.app) = (deployment, app)
  }

  package func times(_ plan: CampaignPlan, _ id: String) -> CampaignTimes { CampaignTimes(plan: plan, app: app(id)) }

  /// The app cannot send at present, whatever the campaign.
  package func hasTroubledApp(_ id: String) -> Bool {
    guard app(id).isConfigured, let served = try? deployment.app(id) else { return true }
    return served.stopReason != nil
  }

  package func obstacle(
    _ plan: CampaignPlan, _ id: String, _ live: LiveCampaign, now: StoreInstant
  ) -> CampaignTimes.Obstacle? { times(plan, id).obstacle(conditions(id, live), now: now) }

  private func conditions(_ id: String, _ live: LiveCampaign) -> CampaignTimes.Conditions {
    guard let served = try? deployment.app(id) else { return CampaignTimes.Conditions(isConfigured: false) }
    return CampaignTimes.Conditions(
      stopReason: served.stopReason,
      hasOtherSettings: live.isBusy && deployment.leftByRemovedApps[id] != nil, hasLostPart: live.hasLost)
  }
}
