internal import PushEngine
internal import PushStore
internal import PushTransport

/// Whom of its audience a campaign passes over although they could get it: the holdout groups, and
/// those whose caps are reached.
struct Withholding: Sendable {
  let app: String
  var campaign: StoredUUID
  /// Of the app. Empty: nobody is counted.
  let caps: [FrequencyCap]
  /// Those whose caps are reached get it, too, and it is counted.
  let ignoresCaps: Bool
  let groups: [HoldoutGroup]
  /// Nothing is sent, so nobody is counted.
  let isTrial: Bool
  let store: any Store
  let clock: any ServiceClock

  init(
    _ plan: CampaignPlan, of record: StoredCampaign, in app: CampaignTimes.App, store: any Store,
    clock: any ServiceClock
  ) {
    (self.app, campaign, isTrial, self.store, self.clock) = (record.app, record.id, plan.isDryRun, store, clock)
    // What a Live Activity shows is no campaign that could wait.
    let isOrdinary = plan.filter.activity == nil
    caps = isOrdinary ? app.caps : []
    ignoresCaps = plan.ignoresCaps
    groups =
      [
        plan.holdoutPercent.map { HoldoutGroup(name: record.id.text, percent: $0) },
        isOrdinary ? app.holdoutPercent.map { HoldoutGroup(name: record.app, percent: $0) } : nil,
      ].compactMap(\.self)
  }

  /// What each of the devices is to the campaign. For those who get it, it is counted.
  func kinds(_ devices: [AudienceDevice]) async throws -> [AudienceEntry.Kind] {
    var kinds: [AudienceEntry.Kind] = devices.map { $0.isSuppressed ? .suppressed : .ready }
    guard !caps.isEmpty || !groups.isEmpty else { return kinds }
    let members = devices.map { AudienceMemberDigest($0, app: app) }
    for place in kinds.indices where kinds[place] == .ready && groups.contains(where: { $0.has(members[place]) }) {
      kinds[place] = .holdout
    }
    guard !caps.isEmpty else { return kinds }
    let ready = kinds.indices.filter { kinds[$0] == .ready }
    guard !ready.isEmpty else { return kinds }
    var request = AdmissionRequest(
      app: app, campaign: campaign, members: ready.map { members[$0].bytes }, caps: caps, now: clock.now)
    request.isTrial = isTrial
    if ignoresCaps { request.caps = [] }
    let refused = try await clock.retrying { [request] () throws(StoreError) in
      try await store.notAdmitted(request)
    }
    for place in ready where refused.contains(members[place].bytes) { kinds[place] = .capped }
    return kinds
  }
}

/// Who is meant when users are counted: a user, or a device without one.
package struct AudienceMemberDigest: Hashable, Sendable {
  let high: UInt64
  let low: UInt64

  /// - Parameter app: the same user is another member of another app.
  package init(user: String, app: String) { self.init("user", app, Array(user.utf8)) }

  init(_ device: AudienceDevice, app: String) {
    if let user = device.userID { self.init(user: user, app: app) } else { self.init("device", app, device.token) }
  }

  private init(_ kind: String, _ app: String, _ name: [UInt8]) {
    (high, low) = Digest.shortSHA256(Array(kind.utf8) + [0] + Array(app.utf8) + [0] + name)
  }

  package var bytes: [UInt8] { Admissions.bytes(high) + Admissions.bytes(low) }
}

/// Some of all members, the same at each look: a share of the digests of their names with that of
/// the group.
struct HoldoutGroup: Hashable, Sendable {
  let name: String
  let percent: Int

  func has(_ member: AudienceMemberDigest) -> Bool {
    let (high, _) = Digest.shortSHA256(Array("holdout".utf8) + [0] + Array(name.utf8) + [0] + member.bytes)
    return high.multipliedFullWidth(by: 100).high < UInt64(percent)
  }
}
