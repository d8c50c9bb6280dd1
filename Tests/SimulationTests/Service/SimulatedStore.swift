internal import PushStore
internal import PushTransport
internal import PushWire
internal import Support
internal import Synchronization

/// The disk of a service's store.
final class StoreDisk: Sendable {
  private let state = Mutex(StoreContents())

  var contents: StoreContents { state.withLock { $0 } }
  @discardableResult
  func change<Result>(_ body: (inout StoreContents) -> sending Result) -> sending Result {
    state.withLock { body(&$0) }
  }
}

/// The store as one process of a simulated service sees it. What a call has returned for is on the
/// disk; what a call was doing when the process was killed may be.
///
/// It has what campaigns and the bridge ask for. The rest belongs to the API, which nobody
/// simulates.
final class SimulatedStore: Store {
  struct Faults {
    /// In milliseconds, before and after a call has its effect.
    var latency = 0...0
    /// Of 1000 calls, those that fail, before or after their effect.
    var failuresPerMille = 0
    /// The number of the write that fails, and all later ones: the disk is full. Nil: none does.
    var failsAtWrite: Int?
    /// Of 1000 calls, those with which the store is away, for up to half a minute.
    var awayPerMille = 0

    /// The same plan has the same faults with it and without it.
    static func awayPerMille(seed: UInt64) -> Int {
      var random = SeededGenerator(seed: seed ^ 0xA3A7)
      return [0, 0, 5, 100].randomElement(using: &random) ?? 0
    }
  }

  private struct State {
    var random: SeededGenerator
    var writeCount = 0
    var isDead = false
    /// Of its own, so that it changes nothing else that is drawn.
    var absences: SeededGenerator
    var awayUntil = Instant.start
  }

  private let disk: StoreDisk
  private let loop: SimulatedLoop
  private let faults: Faults
  private let state: Mutex<State>

  init(_ disk: StoreDisk, _ loop: SimulatedLoop, _ faults: Faults, seed: UInt64) {
    (self.disk, self.loop, self.faults) = (disk, loop, faults)
    state = Mutex(State(random: SeededGenerator(seed: seed), absences: SeededGenerator(seed: seed ^ 0xA3A7)))
  }

  /// Nothing of what the process asks for reaches the disk any more.
  func kill() { state.withLock { $0.isDead = true } }

  private static let failure = StoreError(.failed, path: "store.db", "the store store.db cannot be read: simulated")
  private static let away = StoreError(.away, path: "store.db", "the store store.db is locked: simulated")
  private static let full = StoreError(.full, path: "store.db", "the store store.db cannot be written: disk is full")

  // MARK: Faults

  private func pause() async {
    let duration = state.withLock { state in Int.random(in: faults.latency, using: &state.random) }
    guard duration > 0 else { return }
    await withCheckedContinuation { continuation in
      _ = loop.schedule(at: loop.now + .milliseconds(duration)) { continuation.resume() }
    }
  }

  private func draws() -> Bool {
    state.withLock { state in Int.random(in: 0..<1_000, using: &state.random) < faults.failuresPerMille }
  }

  private var isAway: Bool {
    state.withLock { state in
      if loop.now < state.awayUntil { return true }
      guard Int.random(in: 0..<1_000, using: &state.absences) < faults.awayPerMille else { return false }
      state.awayUntil = loop.now + .milliseconds(Int.random(in: 0...30_000, using: &state.absences))
      return true
    }
  }

  private var isDead: Bool { state.withLock { $0.isDead } }

  private func call<Result: Sendable>(
    _ body: (inout StoreContents) -> sending Result
  ) async throws(StoreError) -> Result {
    await pause()
    guard !isDead, !draws() else { throw Self.failure }
    guard !isAway else { throw Self.away }
    let result = disk.change(body)
    await pause()
    guard !isDead, !draws() else { throw Self.failure }
    return result
  }

  private func callNow(_ body: (inout StoreContents) -> Void) throws(StoreError) {
    let fails = state.withLock { state in
      state.writeCount += 1
      return state.isDead || faults.failsAtWrite.map { state.writeCount >= $0 } ?? false
    }
    if fails { throw Self.full }
    guard !isAway else { throw Self.away }
    disk.change { body(&$0) }
  }

  /// Devices of one look.
  private static let stretch = 100

  // MARK: Store

  var file: String? { nil }
  var logByteCount: Int { 0 }
  func close() throws(StoreError) {}

  func write(_ changes: IntakeChanges) throws(StoreError) { try callNow { $0.write(changes) } }
  func endRuns(except open: Set<StoredRunID>, at instant: StoreInstant) async throws(StoreError) {
    try await call { contents in
      for run in contents.runs.keys where !open.contains(run) && contents.runs[run]?.endedAt == nil {
        contents.runs[run]?.endedAt = instant
      }
    }
  }

  func lastDeviceKey(app: String) async throws(StoreError) -> Int64 { try await call { $0.devices.last?.key ?? 0 } }
  func audienceMembers(
    app: String, filter: AudienceFilter, after key: Int64, through last: Int64, withTimeZones: Bool
  ) async throws(StoreError) -> AudienceStretch {
    try await call { contents in
      let devices = contents.devices.drop { $0.key <= key }.prefix { $0.key <= last }
      let members = devices.prefix(Self.stretch).map { AudienceMember(key: $0.key, timeZone: contents.zones[$0.key]) }
      return AudienceStretch(members, through: devices.count > Self.stretch ? members.last?.key ?? last : last)
    }
  }
  func audienceDevices(app: String, keys: [Int64]) async throws(StoreError) -> [AudienceDevice] {
    let keys = Set(keys)
    return try await call { contents in contents.devices.filter { keys.contains($0.key) } }
  }
  func audienceCount(app: String, filter: AudienceFilter, through last: Int64) async throws(StoreError) -> Int {
    try await call { contents in contents.devices.count { $0.key <= last } }
  }

  func add(_ campaign: StoredCampaign, openLimit: Int) async throws(StoreError) -> Bool {
    try await call { contents in
      guard contents.openCampaigns(of: .all, in: nil).count < openLimit else { return false }
      contents.campaigns[campaign.id] = campaign
      return true
    }
  }
  func campaign(_ id: StoredUUID) async throws(StoreError) -> StoredCampaign? { try await call { $0.campaigns[id] } }
  func campaignHead(_ id: StoredUUID) async throws(StoreError) -> CampaignHead? {
    try await call { $0.campaigns[id]?.head }
  }
  func plan(of id: StoredUUID) async throws(StoreError) -> [UInt8]? { try await call { $0.campaigns[id]?.content } }
  func campaigns(app: String, before cursor: StoredUUID?, limit: Int) async throws(StoreError) -> [CampaignHead] {
    try await latestCampaigns(of: .only([app]), limit: limit)
  }
  func latestCampaigns(of apps: AppReach, limit: Int) async throws(StoreError) -> [CampaignHead] {
    try await call { contents in Array(contents.heads { apps.contains($0.app) }.prefix(limit)) }
  }
  func openCampaigns(of apps: AppReach, in states: [String]?, limit: Int?) async throws(StoreError) -> [CampaignHead] {
    try await call { contents in Array(contents.openCampaigns(of: apps, in: states).prefix(limit ?? .max)) }
  }
  func openCampaignCount(of apps: AppReach, in states: [String]) async throws(StoreError) -> Int {
    try await call { $0.openCampaigns(of: apps, in: states).count }
  }
  func update(_ campaign: StoredCampaign, from version: Int64) async throws(StoreError) -> Bool {
    try await call { $0.update(campaign, from: version) }
  }
  func add(_ parts: [StoredCampaignPart], of campaign: StoredUUID) async throws(StoreError) {
    try await call { $0.add(parts, of: campaign) }
  }
  func begin(part number: Int, of campaign: StoredUUID, at instant: StoreInstant) async throws(StoreError) {
    try await call { $0.change(number, of: campaign) { $0.begunAt = $0.begunAt ?? instant } }
  }
  func renew(parts numbers: [Int], of campaign: StoredUUID) async throws(StoreError) {
    try await call { contents in
      for number in numbers { contents.change(number, of: campaign) { if $0.endedAt == nil { $0.begunAt = nil } } }
    }
  }
  func parts(of campaign: StoredUUID) async throws(StoreError) -> [StoredCampaignPart] {
    try await call { $0.parts[campaign] ?? [] }
  }
  func progress(of campaigns: [StoredUUID]) async throws(StoreError) -> [StoredUUID: [CampaignPartProgress]] {
    try await call { contents in
      campaigns.reduce(into: [:]) { found, id in
        if let progress = contents.progress(of: id) { found[id] = progress }
      }
    }
  }
  func end(_ parts: [EndedCampaignPart]) throws(StoreError) { try callNow { $0.end(parts) } }
  func forgetCampaigns(endedBefore instant: StoreInstant, limit: Int) async throws(StoreError) -> [StoredUUID] {
    try await call { $0.forget(limit) { $0.endedAt.map { $0 < instant } ?? false } }
  }
  func forgetCampaigns(
    in states: [String], unchangedSince instant: StoreInstant, limit: Int
  ) async throws(StoreError) -> [StoredUUID] {
    try await call { $0.forget(limit) { $0.endedAt == nil && states.contains($0.state) && $0.changedAt < instant } }
  }
  func cut(
    _ campaign: StoredUUID, from key: Int64, through end: Int64, adding pieces: [MemberPiece]
  ) async throws(StoreError) -> Bool {
    try await call { contents in
      guard contents.campaigns[campaign]?.cutKey == key else { return false }
      contents.campaigns[campaign]?.cutKey = end
      contents.members[campaign, default: []] += pieces
      return true
    }
  }
  func removeMembers(of campaign: StoredUUID) async throws(StoreError) {
    try await call { contents in
      contents.campaigns[campaign]?.cutKey = 0
      contents.members[campaign] = nil
    }
  }
  func members(of campaign: StoredUUID, part: Int, after key: Int64) async throws(StoreError) -> [Int64] {
    try await call { contents in
      let pieces = (contents.members[campaign] ?? []).filter { $0.part == part && $0.last > key }
      return pieces.min { $0.last < $1.last }.map { $0.keys.filter { $0 > key } } ?? []
    }
  }
  func memberParts(of campaign: StoredUUID, keys: [Int64]) async throws(StoreError) -> [Int64: Int] {
    let keys = Set(keys)
    return try await call { contents in
      (contents.members[campaign] ?? []).reduce(into: [:]) { found, piece in
        for key in piece.keys where keys.contains(key) { found[key] = piece.part }
      }
    }
  }
  func memberCount(of campaign: StoredUUID) async throws(StoreError) -> Int {
    try await call { contents in (contents.members[campaign] ?? []).reduce(0) { $0 + $1.keys.count } }
  }
  func audienceByteCount(app: String, besides other: StoredUUID) async throws(StoreError) -> Int64 {
    try await call { contents in contents.heads { $0.id != other }.reduce(0) { $0 + $1.upload.byteCount } }
  }

  func forwardedFrames(since instant: StoreInstant) async throws(StoreError) -> [RememberedFrames] {
    try await call { $0.forwardedFrames(since: instant) }
  }
  func alreadyDelivered(app: String) async throws(StoreError) -> (count: Int, last: StoreInstant?) {
    (try await call { $0.alreadyDelivered }, nil)
  }
  func forgetForwarded(before instant: StoreInstant, now: StoreInstant?) async throws(StoreError) {
    try await call { $0.forgetForwarded(before: instant, now: now) }
  }
  func lastSignOfBridge() async throws(StoreError) -> StoreInstant? { try await call { $0.lastSignOfBridge } }
}

/// Only the API asks for these.
extension SimulatedStore {
  private func unsimulated<Result>() throws(StoreError) -> Result {
    disk.change { $0.problems.append("the store was asked for something that is not simulated") }
    throw Self.failure
  }

  func add(_ key: StoredKey, by creator: String?) async throws(StoreError) -> Bool { try unsimulated() }
  func keys() async throws(StoreError) -> [StoredKey] { try unsimulated() }
  func revokeKey(_ id: String, at instant: StoreInstant) async throws(StoreError) -> Bool { try unsimulated() }
  func noteUse(of keys: [String: StoreInstant]) async throws(StoreError) { let _: Int = try unsimulated() }
  func notification(_ id: StoredNotificationID) async throws(StoreError) -> StoredNotification { try unsimulated() }
  func add(_ batch: StoredBatch) async throws(StoreError) { let _: Int = try unsimulated() }
  func batch(_ id: StoredUUID) async throws(StoreError) -> StoredBatch? { try unsimulated() }
  func outcomes(of parts: [StoredLines]) async throws(StoreError) -> OutcomeCounts { try unsimulated() }
  func goneDevices(app: String, after cursor: Int64, limit: Int) async throws(StoreError) -> [StoredGoneDevice] {
    try unsimulated()
  }
  func forget(endedBefore instant: StoreInstant) async throws(StoreError) { let _: Int = try unsimulated() }
  func add(_ references: [(StoredNotificationID, String)]) async throws(StoreError) { let _: Int = try unsimulated() }
  func settle(_ changes: IntakeChanges) async throws(StoreError) { let _: Int = try unsimulated() }
  func register(_ device: DeviceRegistration, app: String) async throws(StoreError) -> RegisteredDevice {
    try unsimulated()
  }
  func importDevices(_ devices: [DeviceRegistration], app: String) async throws(StoreError) -> [RegisteredDevice] {
    try unsimulated()
  }
  func device(token: [UInt8], app: String) async throws(StoreError) -> StoredDevice? { try unsimulated() }
  func device(id: StoredUUID, app: String) async throws(StoreError) -> StoredDevice? { try unsimulated() }
  func devices(ids: [StoredUUID], app: String) async throws(StoreError) -> [StoredUUID: StoredDevice] {
    try unsimulated()
  }
  func removeDevice(token: [UInt8], app: String) async throws(StoreError) -> Bool { try unsimulated() }
  func devices(app: String, tag: String?, after key: Int64, limit: Int) async throws(StoreError) -> [StoredDevice] {
    try unsimulated()
  }
  func pausedApps() async throws(StoreError) -> [String: StoreInstant] { try unsimulated() }
  func pause(app: String, at instant: StoreInstant) async throws(StoreError) { let _: Int = try unsimulated() }
  func resume(app: String) async throws(StoreError) { let _: Int = try unsimulated() }
  func lastFeedbackPoll(app: String) async throws(StoreError) -> StoreInstant? { try unsimulated() }
  func noteFeedbackPoll(app: String, at instant: StoreInstant) async throws(StoreError) {
    let _: Int = try unsimulated()
  }
  func begin(_ request: IdempotentRequest, oldest: StoreInstant) async throws(StoreError) -> IdempotentBeginning {
    try unsimulated()
  }
  func finish(_ request: IdempotentRequest, _ answer: StoredAnswer) async throws(StoreError) {
    let _: Int = try unsimulated()
  }
  func withdraw(_ request: IdempotentRequest) async throws(StoreError) { let _: Int = try unsimulated() }
  func forgetRequests(begunBefore instant: StoreInstant) async throws(StoreError) { let _: Int = try unsimulated() }
  func undeliveredFeedback(
    app: String, after number: Int64, through last: Int64, limit: Int
  ) async throws(StoreError) -> [StoredGoneDevice] { try unsimulated() }
  func lastFeedback(app: String) async throws(StoreError) -> Int64 { try unsimulated() }
  func feedbackCursor(app: String) async throws(StoreError) -> Int64 { try unsimulated() }
  func setFeedbackCursor(app: String, to number: Int64) async throws(StoreError) { let _: Int = try unsimulated() }
}
