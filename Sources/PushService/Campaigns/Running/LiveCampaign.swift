package import Carillon
internal import PushEngine
package import PushStore
internal import Synchronization

/// What this process does at present for a campaign.
package final class LiveCampaign: Sendable {
  private struct State {
    var parts: [Int: PushCampaign] = [:]
    /// Segments that this process carries, and what has become of those that it carried.
    var segments: [SegmentID: PushCampaign] = [:]
    var settledSegmentCount = 0
    /// Of parts that this process sends no longer.
    var lastAccounts: [Int: CampaignAccount] = [:]
    var isCounting = false
    var isCut = false
    /// Parts whose tasks run.
    var busyParts: Set<Int> = []
    var isDriven = false
    var isWoken = false
    /// Parts that were cut off in this process: only the next process can resume them.
    var lostParts: Set<Int> = []
    var isLeft = false
    var isOver = false
    var isUploading = false
    var quiet: QuietParts?
    var pace: CampaignPace?
    /// The parsed plan, with what it was parsed from.
    var plan: (content: [UInt8], plan: CampaignPlan)?
    /// The parts that had not ended when the store was read last.
    var openParts: [CampaignTimes.Part] = []
  }

  /// Parts whose time has come, and which quiet hours of their zones hold back.
  package struct QuietParts: Hashable, Sendable {
    var parts: Set<Int>
    package var until: StoreInstant
    /// A sentence.
    package var reason: String
  }

  package let id: StoredUUID
  let app: String
  private let clock: any ServiceClock
  private let state = Mutex(State())
  /// Wakes the driver.
  let signal = ReaderSignal()

  init(id: StoredUUID, app: String, clock: any ServiceClock) { (self.id, self.app, self.clock) = (id, app, clock) }

  /// The plan of the campaign, parsed once for each content.
  func plan(of record: StoredCampaign) throws -> CampaignPlan {
    if let known = state.withLock({ $0.plan }), known.content == record.content { return known.plan }
    let plan = try CampaignPlan(parsing: record.content[...])
    state.withLock { $0.plan = (record.content, plan) }
    return plan
  }

  /// What is known without the store; nil: it was not read yet.
  var known: (plan: CampaignPlan, openParts: [CampaignTimes.Part])? {
    state.withLock { state in state.plan.map { ($0.plan, state.openParts) } }
  }

  func remember(openParts: [CampaignTimes.Part]) { state.withLock { $0.openParts = openParts } }

  // MARK: Its driver

  /// False if it has one, which looks again before it leaves.
  func beginDriving() -> Bool {
    state.withLock { state in
      defer { (state.isDriven, state.isWoken) = (true, state.isDriven) }
      return !state.isDriven
    }
  }

  /// False if there is something new to look at.
  func endDriving() -> Bool {
    state.withLock { state in
      defer { (state.isDriven, state.isWoken) = (state.isWoken, false) }
      return !state.isWoken
    }
  }

  // MARK: Its parts

  /// False if a task sends the part already.
  func begin(part: Int) -> Bool { state.withLock { $0.busyParts.insert(part).inserted } }

  /// The driver looks at it again: it is paused.
  func begun(part: Int, _ campaign: PushCampaign) {
    state.withLock { $0.parts[part] = campaign }
    signal.set()
  }

  func ended(part: Int) {
    state.withLock { state in
      state.lastAccounts[part] = state.parts.removeValue(forKey: part)?.accountSoFar
      state.busyParts.remove(part)
    }
    signal.set()
  }

  func began(_ segment: SegmentID, _ campaign: PushCampaign) { state.withLock { $0.segments[segment] = campaign } }

  func ended(_ segment: SegmentID) {
    state.withLock { state in
      state.settledSegmentCount += state.segments.removeValue(forKey: segment)?.accountSoFar.settled ?? 0
    }
    signal.set()
  }

  var isSending: Bool { state.withLock { !$0.busyParts.isEmpty || !$0.segments.isEmpty } }

  /// This process ends, or no longer has the app: the next process resumes it.
  func leave() { state.withLock { $0.isLeft = true } }
  var isLeft: Bool { state.withLock { $0.isLeft } }

  /// The rate of all parts together. It does not change once a part is sent.
  ///
  /// - Parameter isShared: other processes keep it, too: nothing is sent before the share of this
  ///   one is known.
  func pace(perSecond: Double, isShared: Bool) -> CampaignPace {
    state.withLock { state in
      if let pace = state.pace { return pace }
      let pace = CampaignPace(perSecond: perSecond) { [clock] in clock.uptime }
      if isShared { pace.use(perSecond: 0, for: .zero) }
      state.pace = pace
      return pace
    }
  }

  /// Nil: it has none, or nothing was sent.
  var knownPace: CampaignPace? { state.withLock { $0.pace } }

  /// The part cannot continue in this process.
  func lost(part: Int) { state.withLock { _ = $0.lostParts.insert(part) } }
  func isLost(part: Int) -> Bool { state.withLock { $0.lostParts.contains(part) } }
  var hasLost: Bool { state.withLock { !$0.lostParts.isEmpty } }

  var isBusy: Bool { state.withLock { !$0.busyParts.isEmpty } }
  var busyParts: Set<Int> { state.withLock { $0.busyParts } }
  package func campaign(part: Int) -> PushCampaign? { state.withLock { $0.parts[part] } }
  /// The account of a part when this process stopped sending it; nil: it sends it, or never did.
  package func lastAccount(part: Int) -> CampaignAccount? { state.withLock { $0.lastAccounts[part] } }

  /// Notifications of all parts of this process that have their outcome; nil: no part sends.
  package var settledCount: Int? {
    let (parts, ended) = state.withLock { state in
      (
        Array(state.parts.values) + state.segments.values,
        state.lastAccounts.values.map(\.settled) + [state.settledSegmentCount]
      )
    }
    guard parts.contains(where: { !$0.isPaused }) else { return nil }
    return parts.reduce(ended.reduce(0, +)) { $0 + $1.accountSoFar.settled }
  }

  /// False if its audience is being counted.
  func beginCounting() -> Bool { state.withLock { !exchange(&$0.isCounting, with: true) } }
  func endCounting() { state.withLock { $0.isCounting = false } }

  /// All its members are known to be fixed.
  var isCut: Bool { state.withLock { $0.isCut } }
  func noteCut() { state.withLock { $0.isCut = true } }

  private var campaigns: [PushCampaign] { state.withLock { Array($0.parts.values) } }

  /// Segments resume when the ledger says so.
  func pause() {
    let all = state.withLock { Array($0.parts.values) + $0.segments.values }
    for campaign in all where !campaign.isPaused { campaign.pause() }
  }

  func pause(parts: Set<Int>) {
    let campaigns = state.withLock { state in
      parts.compactMap { state.parts[$0] } + state.segments.filter { parts.contains($0.key.part) }.values
    }
    for campaign in campaigns where !campaign.isPaused { campaign.pause() }
  }

  /// Every part sends except those in quiet hours.
  func resume(except quiet: QuietParts?) {
    let parts = state.withLock { state in
      state.quiet = quiet
      return state.parts
    }
    for (number, campaign) in parts {
      let isQuiet = quiet?.parts.contains(number) == true
      guard campaign.isPaused != isQuiet else { continue }
      if isQuiet { campaign.pause() } else { campaign.resume() }
    }
  }

  /// Returns when there is a signal, after the duration, or when the task is cancelled.
  func wait(atMost duration: Duration) async { await clock.sleep(for: duration, orUntil: signal) }

  /// Nil: no part is in quiet hours.
  package var quiet: QuietParts? { state.withLock { $0.quiet } }

  /// Nothing more is sent.
  func cancel() {
    state.withLock { $0.isOver = true }
    for campaign in campaigns { campaign.cancel() }
  }

  /// Whoever is read from now on gets nothing.
  var isOver: Bool { state.withLock { $0.isOver } }

  // MARK: Uploads

  /// False if another upload is running.
  package func beginUpload() -> Bool { state.withLock { !exchange(&$0.isUploading, with: true) } }
  package func endUpload() { state.withLock { $0.isUploading = false } }
}
