package import PushTransport
package import PushWire

/// One client's connection to a ``SimulatedGateway``: a session with the fault rules as its policy.
/// It counts and records.
///
/// Events in, actions out, to be carried out in order. All calls must come from one thread or
/// executor. Call ``ended()`` when the connection is gone, whichever side closed it.
package struct SimulatedConnection: ~Copyable {
  /// The gateway's number of this connection, from 1.
  package let number: Int
  package let topic: String
  private let ledger: TruthLedger
  private let tally: ConnectionTally
  private var session: GatewaySession
  private var policy: RecordingPolicy

  init(to gateway: SimulatedGateway, topic: String, isForOtherEnvironment: Bool) {
    let faults = gateway.rules.faults(forTopic: topic)
    let opened = gateway.ledger.open(topic: topic)
    number = opened.number
    self.topic = topic
    tally = opened.tally
    ledger = gateway.ledger
    var settings = GatewaySession.Settings(faults)
    settings.checksJSON = gateway.rules.checksJSON
    session = GatewaySession(settings)
    policy = RecordingPolicy(
      FrameFaultInjector(faults, connection: opened.ordinal), gateway: gateway, topic: topic, number: opened.number,
      closesAtOnce: isForOtherEnvironment)
  }

  /// The first event: the TLS handshake is complete.
  package mutating func opened(now: Instant) -> [GatewayAction] { session.opened(now: now, policy: &policy) }

  /// The client's next plain bytes, cut anywhere.
  package mutating func received(_ bytes: UnsafeRawBufferPointer, now: Instant) -> [GatewayAction] {
    let actions = unsafe session.received(bytes, now: now, policy: &policy)
    tally.store(session.counts)
    return actions
  }

  /// The time of the last ``GatewayAction/wake(at:)`` has come.
  package mutating func woken(now: Instant) -> [GatewayAction] { session.woken(now: now) }

  /// The client has finished sending.
  package mutating func peerClosed(now: Instant) -> [GatewayAction] { session.peerClosed(now: now) }

  /// The gateway stops: status 10 with the identifier of the last accepted frame.
  package mutating func shutDown(now: Instant) -> [GatewayAction] { session.shutDown(now: now) }

  /// The connection is gone. Its counts become final and its lines go to the record. No event may
  /// follow.
  package mutating func ended() {
    policy.ended(session.counts)
    tally.store(session.counts)
    ledger.close(number)
  }
}

/// The verdicts of the fault rules, recorded.
private struct RecordingPolicy: FramePolicy, ~Copyable {
  private var faults: FrameFaultInjector
  private var recorder: FrameRecorder?
  private let memory: RecordedFrames?
  private let ledger: TruthLedger
  private let topic: String
  private let number: Int
  private let records: Bool
  private let closesAtOnce: Bool

  init(_ faults: FrameFaultInjector, gateway: SimulatedGateway, topic: String, number: Int, closesAtOnce: Bool) {
    (self.closesAtOnce, self.faults) = (closesAtOnce, faults)
    recorder = gateway.recordFile.map { FrameRecorder(file: $0, topic: topic, connection: number) }
    memory = gateway.memory
    ledger = gateway.ledger
    (self.topic, self.number) = (topic, number)
    records = gateway.recordFile != nil || gateway.memory != nil
  }

  mutating func opened() -> ConnectionInterruption? { closesAtOnce ? .close : faults.opened() }

  mutating func verdict(on frame: DecodedFrame) -> Verdict {
    let verdict = faults.verdict(on: frame)
    guard records else { return verdict }
    switch verdict {
    case .accept, .acceptThen: record(frame, nil)
    case .refuse, .poison: break
    }
    return verdict
  }

  mutating func refused(_ frame: DecodedFrame, as refusal: Refusal) {
    ledger.refused(topic: topic, refusal)
    if records { record(frame, refusal) }
  }

  mutating func ended(_ counts: GatewaySession.Counts) {
    recorder?.flush()
    memory?.ended(
      RecordedFrames.Connection(
        topic: topic, number: number, accepted: counts.accepted, refusal: counts.refusal, discarded: counts.discarded))
  }

  private mutating func record(_ frame: DecodedFrame, _ refusal: Refusal?) {
    recorder?.append(frame, refusal: refusal)
    memory?.append(frame, topic: topic, connection: number, refusal: refusal)
  }
}
