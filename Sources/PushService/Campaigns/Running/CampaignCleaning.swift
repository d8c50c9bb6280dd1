internal import Foundation
internal import PushStore

/// Forgets campaigns, with their files.
struct CampaignCleaning: Sendable {
  let controller: CampaignController
  let files: AudienceFiles

  /// The most campaigns in one turn of the store.
  private static let limit = 100

  /// Campaigns that ended before the instant.
  func forget(endedBefore oldest: StoreInstant) async throws(StoreError) {
    var count = 0
    repeat {
      count = remove(try await controller.store.forgetCampaigns(endedBefore: oldest, limit: Self.limit))
    } while count == Self.limit
  }

  /// Campaigns that were never started, and not changed since the instant.
  func forget(draftsUnchangedSince oldest: StoreInstant) async throws(StoreError) {
    let states = [CampaignState.draft, .uploading].map(\.rawValue)
    var count = 0
    repeat {
      count = remove(try await controller.store.forgetCampaigns(in: states, unchangedSince: oldest, limit: Self.limit))
    } while count == Self.limit
  }

  /// - Returns: how many.
  private func remove(_ forgotten: [StoredUUID]) -> Int {
    for id in forgotten {
      remove(id)
      controller.forget(id)
    }
    return forgotten.count
  }

  /// What this process has of campaigns that another one has forgotten, or an earlier one of this
  /// node when it was killed.
  func removeOrphans() async throws(StoreError) {
    for live in controller.all where try await controller.store.campaignHead(live.id) == nil {
      controller.forget(live.id)
    }
    for name in (try? FileManager.default.contentsOfDirectory(atPath: files.spool.directory)) ?? [] {
      guard let id = StoredUUID(name), try await controller.store.campaignHead(id) == nil else { continue }
      remove(id)
    }
  }

  private func remove(_ id: StoredUUID) {
    files.forget(id)
    files.spool.remove(id)
  }
}
