internal import PushStore
internal import Testing

/// The use cases that write, one after the other. Later ones build on earlier ones.
enum StoreSteps {
  /// One use case that writes.
  struct Step {
    let name: String
    let perform: @Sendable (any Store) async throws -> Void
    /// Whether the file has it.
    let isDone: @Sendable (any Store) async throws -> Bool
  }

  static let run = StoredRunID(high: 7, low: 8)
  /// Another attempt each time.
  private static var request: IdempotentRequest {
    IdempotentRequest(caller: "key", key: "k", digest: [1], begunAt: StoreInstant(milliseconds: 1))
  }
  private static let campaign = StoredUUID(high: 3, low: 1)
  private static func at(_ milliseconds: Int64) -> StoreInstant { StoreInstant(milliseconds: milliseconds) }
  private static func notification(_ line: UInt32) -> StoredNotificationID {
    StoredNotificationID(run: run, line: line)
  }
  private static func admission(_ number: UInt64) -> AdmissionRequest {
    AdmissionRequest(
      app: "news", campaign: StoredUUID(high: 4, low: number), members: [[1], [2]],
      caps: [FrequencyCap(span: 1_000, count: 1)], now: at(6))
  }
  private static func device(_ number: Int) -> DeviceRegistration {
    var device = DeviceRegistration(
      token: [UInt8(number >> 8), UInt8(number & 255)], newID: StoredUUID(high: 1, low: UInt64(number)),
      registeredAt: at(5))
    device.tags = .set(["all", "t\(number % 7)"])
    return device
  }

  static let all: [Step] = [
    Step(name: "add a key") { store in
      let key = StoredKey(id: "a", name: "a", digest: [1], scopes: ["send"], reach: .all, createdAt: at(1))
      // An identifier is there once: who asks again looks first.
      if try await store.keys().isEmpty { _ = try await store.add(key, by: nil) }
    } isDone: {
      try await $0.keys().map(\.id) == ["a"]
    },
    Step(name: "sessions") { store in
      try await store.begin(StoredSession(digest: [1], keyID: "a", expiresAt: at(9)), ending: [])
      try await store.begin(StoredSession(digest: [2], keyID: "a", expiresAt: at(9)), ending: [[1]])
      try await store.endSession([3])
    } isDone: {
      try await $0.sessions().map(\.digest) == [[2]]
    },
    Step(name: "events") { store in
      var event = StoredEvent(id: StoredUUID(high: 1, low: 1), at: at(3), .action, "app paused", app: "news")
      (event.subject, event.key, event.address) = ("s", "a", "::1")
      (event.node, event.reason) = ("n1", "r \"ü\"")
      let other = StoredEvent(id: StoredUUID(high: 1, low: 2), at: at(4), .change, "service started")
      try await store.add([event, other], keeping: 10)
    } isDone: {
      try await $0.events(of: .all, before: nil, limit: 9).map(\.id.low) == [2, 1]
    },
    Step(name: "a Live Activity") { store in
      for (name, token) in [(ActivityName.shown("match"), 0), (.startable("match"), 1)] as [(ActivityName, UInt8)] {
        let token = StoredActivityToken(activity: name, device: [1], token: [9, token], registeredAt: at(6))
        _ = try await store.register(token, app: "news", limit: 5)
      }
    } isDone: {
      try await $0.activityTokens(of: .startable("match"), app: "news", devices: nil, since: at(6)).map(\.token)
        == [[9, 1]]
    },
    Step(name: "a campaign that is counted for caps") { store in
      _ = try await store.notAdmitted(admission(1))
    } isDone: {
      var other = admission(2)
      other.isTrial = true
      return try await $0.notAdmitted(other).count == 2
    },
    Step(name: "outcomes of a run") { store in
      var changes = IntakeChanges()
      changes.began = [(run: run, app: "news", at: at(2))]
      changes.accepted = [(run: run, lines: 1...20, confirmation: "confirmed")]
      changes.notAccepted = [
        (notification: notification(21), state: "rejected", detail: "400 BadDeviceToken")
      ]
      changes.doubted = [StoredLines(run: run, lines: 3...4)]
      for (count, origin) in [
        (2, OutcomeGroup.Origin.run(run, isBridge: true)), (3, .campaign(campaign, seed: campaign)),
      ] {
        changes.outcomes.append(
          OutcomeGroup(
            app: "news", origin: origin, state: "accepted", detail: "quiet", at: at(4), count: count, entries: [1, 2]))
      }
      changes.gone = [StoredGoneDevice(app: "news", token: [0, 7], since: at(3), foundAt: at(4))]
      changes.bridge.add(
        ForwardedFrames(
          app: "news", client: "c", position: 0, connection: 1, firstFrame: 0, run: run, firstLine: 1,
          digests: [UInt8](repeating: 1, count: 16 * 4), at: at(4)))
      // As the recorder does: a write whose commit failed may be in the file.
      if store.writeCount == 0 { try store.write(changes) }
    } isDone: { store in
      let counts = try await store.outcomes(of: [StoredLines(run: run, lines: 1...21)])
      let gone = try await store.goneDevices(app: "news", after: 0, limit: 10)
      let frames = try await store.forwardedFrames(since: at(0))
      let listed = try await store.outcomeGroups(app: "news", after: 0, limit: 9).map(\.last)
      let parts = [
        counts.accepted["confirmed"] == 20, counts.doubted == 2, !gone.isEmpty, frames.count == 1, listed == [2, 5],
      ]
      // Written whole, or not at all.
      #expect(Set(parts).count == 1, "\(counts) \(gone) \(frames)")
      return parts[0]
    },
    Step(name: "labels") { store in
      guard try await store.batch(StoredUUID(high: 2, low: 1)) == nil else { return }
      var changes = IntakeChanges()
      for (number, part) in [StoredLines(run: run, lines: 1...20), StoredLines(run: run, lines: 21...21)].enumerated() {
        changes.batches.append(
          StoredBatch(
            id: StoredUUID(high: 2, low: 1), app: "news", parts: [part], rejectedCount: number, createdAt: at(2)))
      }
      changes.references = (1...9).map { (notification($0), "r\($0)") }
      try store.write(changes)
    } isDone: { store in
      let batch = try await store.batch(StoredUUID(high: 2, low: 1))
      #expect(batch.map { [$0.acceptedCount, $0.rejectedCount] } ?? [21, 0] == [21, 0])
      let reference = try await store.notification(notification(9)).reference
      #expect((reference == "r9") == (batch != nil))
      return batch != nil
    },
    Step(name: "settle one") { store in
      var changes = IntakeChanges()
      changes.notAccepted = [
        (notification: notification(30), state: "expired", detail: "")
      ]
      try store.write(changes)
    } isDone: {
      try await $0.notification(notification(30)).outcome?.state == "expired"
    },
    Step(name: "import devices") { store in
      _ = try await store.importDevices((0..<120).map(device), app: "news")
    } isDone: { store in
      let count = try await store.audienceCount(app: "news", filter: AudienceFilter(all: ["all"]), through: .max)
      #expect(count == 0 || count >= 120)
      return count >= 120
    },
    Step(name: "register a device") {
      _ = try await $0.register(device(500), app: "news")
    } isDone: {
      try await $0.device(token: [1, 244], app: "news") != nil
    },
    Step(name: "register a device in another's place") { store in
      var moved = device(501)
      moved.replacedToken = [1, 244]
      _ = try await store.register(moved, app: "news")
    } isDone: {
      try await $0.device(token: [1, 245], app: "news") != nil
    },
    Step(name: "remove a device") {
      _ = try await $0.removeDevice(token: [0, 3], app: "news")
    } isDone: {
      try await $0.device(token: [0, 3], app: "news") == nil
    },
    Step(name: "remove a user's devices") { store in
      for number in 1...2 as ClosedRange<UInt8> {
        var device = DeviceRegistration(
          token: [77, number], newID: StoredUUID(high: 77, low: UInt64(number)), registeredAt: at(7))
        device.userID = .set("ada")
        _ = try await store.register(device, app: "news")
      }
      _ = try await store.removeDevices(ofUser: "ada", app: "news", limit: 1)
      _ = try await store.removeDevices(ofUser: "ada", app: "news", limit: 1)
    } isDone: {
      try await $0.devices(ofUsers: ["ada"], app: "news", limit: 9).isEmpty
    },
    Step(name: "pause an app") {
      try await $0.pause(app: "news", at: at(9))
    } isDone: {
      try await $0.pausedApps() == ["news": at(9)]
    },
    Step(name: "note a feedback poll") {
      try await $0.noteFeedbackPoll(app: "news", at: at(9))
    } isDone: {
      try await $0.lastFeedbackPoll(app: "news") == at(9)
    },
    Step(name: "note a delivery") {
      try await $0.noteDelivered(["news": 9])
    } isDone: {
      try await $0.outcomeProgress(app: "news").delivered == 9
    },
    Step(name: "begin a request") {
      _ = try await $0.begin(request, oldest: at(0))
    } isDone: {
      try await $0.begin(request, oldest: at(0)) == .begun
    },
    Step(name: "finish a request") { store in
      try await store.finish(request, StoredAnswer(status: 202, headers: ["a": "b"], body: [1, 2]))
    } isDone: {
      guard case .answered(let answer) = try await $0.begin(request, oldest: at(0)) else { return false }
      return answer.status == 202
    },
    Step(name: "add a campaign") { store in
      guard try await store.campaignHead(campaign) == nil else { return }
      let new = StoredCampaign(
        id: campaign, app: "news", state: "scheduled", content: [UInt8](repeating: 7, count: 9_000), createdAt: at(2))
      #expect(try await store.add(new, openLimit: 5))
    } isDone: {
      try await $0.plan(of: campaign)?.count == 9_000
    },
    Step(name: "divide a campaign") { store in
      try await store.add(
        (0..<3).map { StoredCampaignPart(number: $0, dueAt: at(10), content: [UInt8($0)]) }, of: campaign)
    } isDone: { store in
      let count = try await store.parts(of: campaign).count
      #expect(count == 0 || count == 3)
      return count == 3
    },
    Step(name: "cut a campaign") { store in
      let pieces = [MemberPiece(part: 0, keys: [2, 5]), MemberPiece(part: 2, keys: [3])]
      guard try await store.campaignHead(campaign)?.cutKey == 0 else { return }
      _ = try await store.cut(campaign, from: 0, through: 6, adding: pieces)
    } isDone: { store in
      let (count, key) = (try await store.memberCount(of: campaign), try await store.campaignHead(campaign)?.cutKey)
      #expect(count == (key == 6 ? 3 : 0))
      return key == 6
    },
    Step(name: "begin a part") {
      try await $0.begin(part: 1, of: campaign, at: at(11))
    } isDone: {
      try await $0.parts(of: campaign).dropFirst().first?.begunAt == at(11)
    },
    Step(name: "end parts") { store in
      try store.end(
        (0..<3).map { EndedCampaignPart(campaign: campaign, number: $0, account: [UInt8($0)], endedAt: at(12)) })
    } isDone: { store in
      let ended = try await store.progress(of: campaign).filter { $0.endedAt != nil }.count
      #expect(ended == 0 || ended == 3)
      return ended == 3
    },
    Step(name: "change a campaign") { store in
      guard var changed = try await store.campaign(campaign), changed.head.state != "finished" else { return }
      changed.head.state = "finished"
      changed.head.endedAt = at(13)
      #expect(try await store.update(changed, from: changed.head.version))
    } isDone: {
      try await $0.campaignHead(campaign)?.state == "finished"
    },
    Step(name: "feedback was handed out") {
      try await $0.setFeedbackCursor(app: "news", to: 1)
    } isDone: {
      try await $0.feedbackCursor(app: "news") == 1
    },
    Step(name: "revoke a key") {
      _ = try await $0.revokeKey("a", at: at(20))
    } isDone: {
      try await $0.keys().first?.revokedAt == at(20)
    },
    Step(name: "end runs") {
      try await $0.endRuns(except: [], at: at(30))
    } isDone: { _ in
      true
    },
    Step(name: "forget a campaign") { store in
      _ = try await store.forgetCampaigns(endedBefore: at(14), limit: 10)
    } isDone: {
      try await $0.campaignHead(campaign) == nil
    },
    Step(name: "forget runs") { store in
      try await store.forgetForwarded(before: at(31), life: nil)
      try await store.forget(endedBefore: at(31))
    } isDone: {
      try await $0.outcomes(of: [StoredLines(run: run, lines: 1...21)]).total == 0
    },
    Step(name: "outcomes of a run of another day") { store in
      var changes = IntakeChanges()
      changes.began = [(run: laterRun, app: "news", at: day(20_000))]
      changes.accepted = [(run: laterRun, lines: 1...20, confirmation: "confirmed")]
      changes.doubted = [StoredLines(run: laterRun, lines: 3...4)]
      changes.references = [(StoredNotificationID(run: laterRun, line: 1), "r1")]
      // As above.
      let known = try await store.outcomes(of: [StoredLines(run: laterRun, lines: 1...21)])
      if known.total == 0 { try store.write(changes) }
    } isDone: { store in
      let counts = try await store.outcomes(of: [StoredLines(run: laterRun, lines: 1...21)])
      #expect(counts.doubted == 0 || counts.doubted == 2)
      let reference = try await store.notification(StoredNotificationID(run: laterRun, line: 1)).reference
      return counts.total == 20 && reference == "r1"
    },
    Step(name: "forget another day") { store in
      var changes = IntakeChanges()
      changes.ended = [(run: laterRun, at: day(20_000))]
      try store.write(changes)
      try await store.forget(endedBefore: day(20_002))
    } isDone: {
      try await $0.outcomes(of: [StoredLines(run: laterRun, lines: 1...21)]).total == 0
    },
  ]

  private static let laterRun = StoredRunID(high: 20_000 * 86_400_000 << 16, low: 1)
  private static func day(_ number: Int64) -> StoreInstant { at(number * 86_400_000) }
}
