package import Carillon
internal import HTTPTypes
package import PushStore

/// Finds parts of campaigns that the journal has had, and does not know any more although they have
/// not ended: its folder was lost, or the store is a backup. So their recipients are unknown.
package struct ForgottenParts: Sendable {
  let controller: CampaignController
  let deployment: Deployment
  /// Whether the journal of this process is the one that has had them.
  private let leads: @Sendable () -> Bool

  package init(
    controller: CampaignController, deployment: Deployment, leads: @escaping @Sendable () -> Bool = { true }
  ) {
    (self.controller, self.deployment, self.leads) = (controller, deployment, leads)
  }

  static let reason =
    "The journal no longer knows the campaign, so it is unknown to whom it was sent. Resume it to send it to all "
    + "recipients again, or cancel it."

  func numbers(of id: StoredUUID) async throws(StoreError) -> [Int] {
    let live = controller.live(id)
    // Before the parts are read: what ends meanwhile is not forgotten.
    let busy = live?.busyParts ?? []
    guard live?.isLeft != true else { return [] }
    let open = try await controller.store.progress(of: id).filter { part in
      part.begunAt != nil && part.endedAt == nil && !busy.contains(part.number)
        && live?.isLost(part: part.number) != true
    }
    guard !open.isEmpty else { return [] }
    // What nodes share the ledger knows.
    let shared = try await controller.store.ledger?.sharedProgress(of: [id])[id] ?? [:]
    let known = Set(deployment.servedRemainders.map(\.name))
    return open.map(\.number).filter { !known.contains(id.name(part: $0)) && shared[$0] == nil }
  }

  /// An operator resumes a campaign. Its unknown parts are sent as if they had never begun.
  package func resume(_ id: StoredUUID) async throws -> StoredCampaign {
    if try await controller.store.campaignHead(id)?.isDoubtful == true {
      guard leads() else {
        throw Problem(
          .serviceUnavailable, "Other node", "Only the node that leads knows what was lost of the campaign.",
          action: "Send the request to that node.", retryAfter: 1)
      }
      try await controller.store.renew(parts: try await numbers(of: id), of: id)
    }
    return try await controller.change(id) { campaign in
      if campaign.isDoubtful { return .decided }
      // It resumes by itself when it can: nothing that a person says changes that.
      if campaign.status == .held {
        throw Problem(
          .conflict, "Cannot resume", "The campaign cannot be sent at present. \(campaign.reason)",
          action: "Remove the obstacle: it resumes by itself then. Or cancel it.")
      }
      let isDue = try controller.live(id, app: campaign.app).plan(of: campaign).dueAt <= controller.clock.now
      return .resumed(isBegun: campaign.startedAt != nil || isDue)
    } _: { campaign in
      if campaign.status == .running { campaign.startedAt = campaign.startedAt ?? controller.clock.now }
    }
  }
}
