internal import PushEngine
internal import PushTransport
internal import PushWire

/// The notifications that one app accepts durably. No caller waits for their outcomes.
///
/// Those with the same headers share a run, which is a campaign of the engine whose audience is a
/// queue. A notification that many devices get has a run of its own. Acknowledged notifications are
/// in the rings of the app's lanes, or in the run's reservoir in the journal if no lane has room.
/// A queue holds only notifications that are not acknowledged.
final class AppIntake: Sendable {
  private typealias Queue = IntakeRun.Queue

  private let runtime: AppRuntime
  private let journal: EngineJournal
  private let recorder: any IntakeRecorder
  /// Of what other nodes can take over.
  private let lease: SendLease?
  /// One gauge for each ``ClaimOrder/Rank``.
  let gauges = ClaimOrder.Rank.allCases.map(IntakeGauge.init)
  private let queues: NotificationQueues<IntakeRun>

  init(_ runtime: AppRuntime, journal: EngineJournal, recorder: any IntakeRecorder, lease: SendLease?) {
    (self.runtime, self.journal, self.recorder, self.lease) = (runtime, journal, recorder, lease)
    let (app, engine) = (runtime.entry.id, runtime.engine)
    queues = NotificationQueues { [gauges, entry = runtime.entry] group in
      let run = IntakeRun(engine.newRunID(), app: app, journal: journal, recorder: recorder)
      return Queue(
        run, IntakeRun.limits, gauge: gauges[ClaimOrder.Rank(priority: group.priority).rawValue],
        isShared: group.payload != nil, entry: entry, loop: engine.loop)
    } begin: { [weak runtime] queue, group in
      runtime?.intake?.begin(queue, group)
    }
  }

  /// The memory of everything that was accepted and is in no lane yet.
  var queuedByteCount: Int { gauges.reduce(0) { $0 + $1.byteCount } }

  /// How long the oldest notification without an outcome has waited; zero: there is none.
  var oldestAge: Duration {
    let now = runtime.engine.loop.now
    return queues.all.compactMap(\.oldest).min().map { $0 < now ? now.since($0) : .zero } ?? .zero
  }

  /// Accepts notifications and returns what each is called, in the same order, when all of them are
  /// in the journal.
  ///
  /// - Parameters:
  ///   - assigned: see ``PushApp/take(_:assigned:answer:)``.
  ///   - queued: called when they wait here.
  func submit(
    _ batch: IntakeBatch, assigned: (_ places: [Range<Int>], IntakeRunID, _ firstLine: UInt32) -> Void,
    queued: () -> Void
  ) async throws(CarillonError) -> [NotificationID] {
    guard !batch.tokens.isEmpty else { return [] }
    let answers = AnswerCount()
    var names = [NotificationID?](repeating: nil, count: batch.tokens.count)
    try take(
      batch,
      assigned: { ranges, run, line in
        answers.expect(1)
        assigned(ranges, run, line)
        for (offset, index) in ranges.joined().enumerated() {
          names[index] = NotificationID(run: run, line: line + UInt32(offset))
        }
      }, answer: { answers.add($0) })
    queued()
    try await answers.wait()
    return names.compactMap { $0 }
  }

  /// See ``PushApp/take(_:assigned:answer:)``.
  func take(
    _ batch: IntakeBatch, assigned: (_ places: [Range<Int>], IntakeRunID, _ firstLine: UInt32) -> Void,
    answer: @escaping @Sendable (CarillonError?) -> Void
  ) throws(CarillonError) {
    for (wanted, parts) in batch.grouped() {
      let count = parts.reduce(0) { $0 + $1.range.count }
      let line = queues.enqueue(to: queues.mayHaveQueue(wanted) ? wanted : batch.group(of: parts[0])) { queue in
        queue.enqueue(batch, parts) { first in
          queue.owner.expect(through: first + UInt64(count) - 1, answer)
          assigned(parts.map(\.range), queue.owner.id, UInt32(clamping: first))
        }
      }
      guard line != nil else { throw DeploymentCore.hasEnded }
    }
  }

  /// Whether its channel has a run, or may have one.
  func hasRoom(for broadcast: PreparedNotification) -> Bool { queues.hasRoom(for: broadcast.group) }

  /// Every run accepts nothing more, and ends when everything that it accepted has its outcome.
  ///
  /// - Returns: what opens when all have ended.
  func finish() -> Gate { queues.finish() }

  // MARK: Runs

  private func begin(_ queue: Queue, _ group: PreparedNotification.Group) {
    let isTaken = runtime.engine.jobs.put { [self] in
      await send(queue) { run throws(CarillonError) in
        recorder.began(run.id, app: runtime.entry.id, isBridge: group.isBridge, channel: group.channel)
        var campaign = group.campaign()
        if group.isShared { campaign.lease = lease }
        let number = try await runtime.engine.begin(
          campaign, app: runtime.entry.id,
          context: CampaignContext(intakeRun: run.id, isBridge: group.isBridge, isShared: group.isShared))
        return try runtime.begin(campaign, number, listener: queue)
      }
    }
    if !isTaken { end(queue, DeploymentCore.hasEnded, isSettled: false) }
  }

  /// Resumes what an earlier process accepted.
  func resume(_ campaign: JournalledCampaign, as id: IntakeRunID, isBridge: Bool, isShared: Bool = false) {
    let engine = runtime.engine
    let queue = Queue(
      IntakeRun(id, app: runtime.entry.id, journal: journal, recorder: recorder), IntakeRun.limits,
      gauge: gauges[ClaimOrder.Rank(priority: campaign.priority).rawValue], entry: runtime.entry,
      loop: engine.loop, resumedSince: engine.beginning(of: id))
    queues.add(queue)
    // At once, so that later requests for one of them find it. Earlier outcomes are in the
    // recorder.
    recorder.began(
      id, app: runtime.entry.id, isBridge: isBridge, channel: campaign.headers?.channelIdentifier)
    recorder.acknowledged(id, through: .max)
    engine.jobs.put { [self] in
      await send(queue) { _ throws(CarillonError) in
        var sent = Campaign(
          payload: journal.payload(of: campaign), expiration: campaign.expiration, priority: campaign.priority,
          headers: campaign.headers, seed: campaign.seed)
        if isShared { sent.lease = lease }
        return try runtime.begin(sent, campaign.number, listener: queue)
      }
    }
  }

  private func send(_ queue: Queue, _ begin: (IntakeRun) async throws(CarillonError) -> CampaignRun) async {
    do throws(CarillonError) {
      let campaign = try await begin(queue.owner)
      await runtime.send(queue, campaign, isKept: true) {
        queue.owner.leave()
        campaign.cancel()
      }
      end(queue, runtime.failure ?? DeploymentCore.hasEnded, isSettled: !campaign.ledger.isCancelled)
    } catch { end(queue, error, isSettled: false) }
  }

  private func end(_ queue: Queue, _ error: CarillonError, isSettled: Bool) {
    queue.drop()
    queue.owner.end(error, isSettled: isSettled)
    queues.hasEnded(queue)
  }
}

extension RunningEngine {
  fileprivate func newRunID() -> IntakeRunID {
    IntakeRunID(milliseconds: UInt64(clamping: wallClockMilliseconds()), random: random())
  }

  /// When a run of an earlier process began, by the clock of this one.
  fileprivate func beginning(of id: IntakeRunID) -> Instant {
    let now = loop.now
    let age = Duration.milliseconds(max(0, wallClockMilliseconds() - Int64(clamping: id.milliseconds)))
    // The clock of this process may have begun later.
    return Instant(nanoseconds: now.nanoseconds - min(now.nanoseconds, age.wholeNanoseconds))
  }
}
