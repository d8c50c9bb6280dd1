internal import PushEngine
internal import PushTransport
internal import PushWire
internal import Synchronization

/// What becomes of the notifications of a ``NotificationQueue``.
protocol QueueOwner: AnyObject, Sendable {
  /// Everything up to a line is in rings or in the reservoir, and so in the records of the journal,
  /// if there is one.
  func recorded(through line: UInt64)
  /// - Parameter entries: those that were accepted together.
  func accepted(_ entries: OutcomeEntries, _ confirmation: PushWire.Confirmation)
  /// Another copy of each may arrive.
  func doubted(lines: [UInt64])
  /// Returns false if the notification has no outcome in this process.
  func notAccepted(
    line: UInt64, token: String, outcome: PushWire.Outcome, goneSince: UInt64?, isDoubted: Bool
  ) -> Bool
}

/// Notifications with the same headers, which the engine sends as a campaign: its audience, and the
/// listener for its outcomes. Callers add to it while it is sent. It ends when it has been idle for
/// a while.
final class NotificationQueue<Owner: QueueOwner>: AudienceSource, OutcomeListener {
  struct Limits {
    /// A queue that has been idle for this long ends, so that an idle app costs nothing.
    var idle: Duration
    /// A queue this old accepts nothing more, as soon as another one can continue without
    /// disturbing the order.
    var age: Duration?
    /// The most lines.
    var lines = UInt64.max
  }

  private struct State {
    /// The first has the line `readLine + 1`.
    var entries = QueuedNotifications()
    var lastLine: UInt64 = 0
    /// The last that was read into a chunk.
    var readLine: UInt64 = 0
    var recordedLine: UInt64 = 0
    var settledCount: UInt64 = 0
    var age = QueueAge()
    var signal: ReaderSignal?
    /// Accepts nothing more, and ends when it is empty.
    var isFinished = false
    var activeAt = Instant.start
    var isTimerSet = false

    var isSettled: Bool { settledCount == lastLine }
  }

  let owner: Owner
  private let limits: Limits
  /// Nil: what no lane has room for waits here, and not in the journal.
  private let gauge: IntakeGauge?
  /// Payload and expiration are the campaign's.
  private let isShared: Bool
  private let loop: any Loop
  private let goneDevices: Multicast<PushApp.GoneDevice>
  private let beganAt: Instant
  /// When a queue that resumes after a restart began, by this process's clock.
  private let resumedSince: Instant?
  private let state = Mutex(State())

  /// - Parameters:
  ///   - gauge: of a durable queue: counts what is in no lane yet.
  ///   - loop: for its timer.
  ///   - resumedSince: it accepts nothing, and sends what an earlier process has left since then.
  init(
    _ owner: Owner, _ limits: Limits, gauge: IntakeGauge?, isShared: Bool = false, entry: AppEntry,
    loop: any Loop, resumedSince: Instant? = nil
  ) {
    (self.owner, self.limits, self.gauge) = (owner, limits, gauge)
    (self.isShared, self.loop, self.resumedSince) = (isShared, loop, resumedSince)
    beganAt = loop.now
    goneDevices = entry.goneDevices
    state.withLock { $0.isFinished = resumedSince != nil }
  }

  // MARK: Callers

  /// Accepts notifications, all or none. Returns the line of the first; nil if the queue accepts
  /// nothing more.
  ///
  /// - Parameter accepted: called with that line, before any outcome can come.
  func enqueue(_ batch: IntakeBatch, _ parts: [IntakeBatch.Part], accepted: (_ firstLine: UInt64) -> Void) -> UInt64? {
    let count = parts.reduce(0) { $0 + $1.range.count }
    return enqueue(count, accepted) { $0.append(batch, parts) }
  }

  /// Accepts one notification.
  func enqueue(
    _ notification: PreparedNotification, to token: TokenBytes, accepted: (_ line: UInt64) -> Void
  ) -> UInt64? {
    enqueue(1, accepted) { $0.append(notification, to: CollectionOfOne(token)) }
  }

  private func enqueue(
    _ count: Int, _ accepted: (UInt64) -> Void, _ append: (inout QueuedNotifications) -> Int
  ) -> UInt64? {
    let now = loop.now
    let (line, signal): (UInt64?, ReaderSignal?) = state.withLock { state in
      let last = state.lastLine + UInt64(count)
      guard !state.isFinished, last < limits.lines, !isOld(state, now) else {
        // Within the lock: what others hand over from now on goes to the queue behind this one.
        state.isFinished = true
        return (nil, state.signal)
      }
      let first = state.lastLine + 1
      let byteCount = append(&state.entries)
      gauge?.waiting(count: count, byteCount: byteCount)
      state.lastLine = last
      state.age.took(through: last, now: now)
      accepted(first)
      return (first, state.signal)
    }
    signal?.set()
    return line
  }

  /// Whether the queue is old, and none of its kind has anything in a reservoir. If all was read as
  /// well, it lies in the rings of lanes: whatever comes then is behind it there, in any queue.
  private func isOld(_ state: State, _ now: Instant) -> Bool {
    guard let age = limits.age, now.since(beganAt) >= age else { return false }
    return state.recordedLine == state.lastLine && gauge?.stored.count ?? 0 == 0
  }

  /// When the oldest notification without an outcome was accepted; nil: there is none.
  var oldest: Instant? { resumedSince ?? state.withLock { $0.age.oldest } }

  /// Accepts nothing more. What was accepted is still sent.
  func finish() {
    let signal = state.withLock { state in
      state.isFinished = true
      return state.signal
    }
    signal?.set()
  }

  /// Its campaign has ended: what was not read is dropped.
  func drop() {
    state.withLock { state in
      state.isFinished = true
      gauge?.waiting(count: -state.entries.count, byteCount: -state.entries.byteCount)
      state.entries.removeAll()
    }
  }

  // MARK: AudienceSource

  var reservoir: ReservoirGauge? { gauge?.stored }

  func attach(_ signal: ReaderSignal) { state.withLock { $0.signal = signal } }

  func fill(_ chunk: AudienceChunk) throws(AudienceError) -> AudienceSupply {
    chunk.removeAll()
    return state.withLock { state in
      chunk.mark = AudienceMark(offset: state.readLine, line: state.readLine + 1)
      let (count, byteCount) = state.entries.move(into: chunk, from: state.readLine + 1, isShared: isShared)
      guard count > 0 else { return state.isFinished ? .end : .waiting }
      state.readLine += UInt64(count)
      gauge?.waiting(count: -count, byteCount: -byteCount)
      return .entries
    }
  }

  func recorded(through line: UInt64) {
    state.withLock { $0.recordedLine = line }
    owner.recorded(through: line)
  }

  // MARK: OutcomeListener

  var wantsAccepted: Bool { true }

  func accepted(_ entries: OutcomeEntries, _ confirmation: PushWire.Confirmation) {
    owner.accepted(entries, confirmation)
    settled(entries.count)
  }

  func doubted(lines: [UInt64]) { owner.doubted(lines: lines) }

  func notAccepted(
    line: UInt64, token: String, outcome: PushWire.Outcome, goneSince: UInt64?, isDoubted: Bool
  ) {
    guard
      owner.notAccepted(line: line, token: token, outcome: outcome, goneSince: goneSince, isDoubted: isDoubted)
    else { return }
    if let gone = PushApp.GoneDevice(token, outcome, goneSince: goneSince) { goneDevices.send(gone) }
    settled(1)
  }

  private func settled(_ count: Int) {
    let now = loop.now
    let isTimerNeeded = state.withLock { state in
      state.settledCount += UInt64(count)
      state.age.settled(state.settledCount)
      state.activeAt = now
      guard state.isSettled, !state.isTimerSet, !state.isFinished else { return false }
      state.isTimerSet = true
      return true
    }
    if isTimerNeeded { setTimer(at: now + limits.idle) }
  }

  // MARK: Idleness

  private func setTimer(at deadline: Instant) {
    _ = loop.schedule(at: deadline) { [weak self] in self?.timerFired() }
  }

  private func timerFired() {
    let (next, signal): (Instant?, ReaderSignal?) = state.withLock { state in
      state.isTimerSet = false
      guard state.isSettled, !state.isFinished else { return (nil, nil) }
      let end = state.activeAt + limits.idle
      guard end <= loop.now else {
        state.isTimerSet = true
        return (end, nil)
      }
      state.isFinished = true
      return (nil, state.signal)
    }
    if let next { setTimer(at: next) }
    signal?.set()
  }
}

/// The queues of one app, by what their notifications have in common.
final class NotificationQueues<Owner: QueueOwner>: Sendable {
  typealias Queue = NotificationQueue<Owner>
  typealias Group = PreparedNotification.Group

  private struct State {
    /// Those that accept something.
    var byGroup: [Group: Queue] = [:]
    /// All that have not ended, the oldest first.
    var all: [Queue] = []
    /// Opens when none is left.
    var emptied: Gate?
  }

  private let state = Mutex(State())
  private let create: @Sendable (Group) -> Queue
  private let begin: @Sendable (Queue, Group) -> Void

  /// How many groups with a payload of their own have a queue: each costs memory, and rows in a
  /// store.
  private static var sharedLimit: Int { 8 }

  /// - Parameters:
  ///   - create: makes a queue for a group.
  ///   - begin: starts to send a new queue. ``hasEnded(_:)`` is called in the end.
  init(create: @escaping @Sendable (Group) -> Queue, begin: @escaping @Sendable (Queue, Group) -> Void) {
    (self.create, self.begin) = (create, begin)
  }

  /// The queues that have not ended.
  var all: [Queue] { state.withLock { $0.all } }

  /// Calls `enqueue` with the queue of a group until one accepts.
  ///
  /// - Returns: nil if none does: everything ends.
  func enqueue(to group: Group, _ enqueue: (Queue) -> UInt64?) -> UInt64? {
    // A queue may have ended just now, but not several in a row, unless everything ends.
    for _ in 0..<3 {
      let (queue, isNew) = queue(for: group)
      if isNew { begin(queue, group) }
      if let line = enqueue(queue) { return line }
      state.withLock { if $0.byGroup[group] === queue { $0.byGroup[group] = nil } }
    }
    return nil
  }

  /// Whether a group with a payload of its own may have a queue.
  func mayHaveQueue(_ group: Group) -> Bool {
    guard group.payload != nil else { return true }
    return state.withLock { state in
      state.byGroup[group] != nil || state.byGroup.keys.count { $0.payload != nil } < Self.sharedLimit
    }
  }

  /// Whether a group may have a queue: each channel has one of its own.
  func hasRoom(for group: Group) -> Bool {
    guard group.channel != nil else { return true }
    return state.withLock { state in
      state.byGroup[group] != nil || state.byGroup.keys.count { $0.channel != nil } < IntakeRun.channelLimit
    }
  }

  private func queue(for group: Group) -> (Queue, isNew: Bool) {
    state.withLock { state in
      if let queue = state.byGroup[group] { return (queue, false) }
      let queue = create(group)
      state.byGroup[group] = queue
      state.all.append(queue)
      return (queue, true)
    }
  }

  /// Adds one that accepts nothing.
  func add(_ queue: Queue) { state.withLock { $0.all.append(queue) } }

  func hasEnded(_ queue: Queue) {
    let emptied = state.withLock { state in
      state.all.removeAll { $0 === queue }
      if let group = state.byGroup.first(where: { $0.value === queue })?.key { state.byGroup[group] = nil }
      return state.all.isEmpty ? state.emptied : nil
    }
    emptied?.open()
  }

  /// Every queue accepts nothing more, and ends when everything that it accepted has its outcome.
  ///
  /// - Returns: what opens when all have ended.
  func finish() -> Gate {
    let emptied = Gate()
    let queues = state.withLock { state in
      state.emptied = emptied
      return state.all
    }
    for queue in queues { queue.finish() }
    if queues.isEmpty { emptied.open() }
    return emptied
  }
}
