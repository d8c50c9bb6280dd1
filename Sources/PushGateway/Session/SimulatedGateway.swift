/// A gateway without sockets: fault rules, ground truth and feedback lists of any number of apps, and a ``SimulatedConnection`` for each client that comes.
/// The listener puts it behind TLS; a simulation drives it under virtual time. Safe to use from any thread.
package final class SimulatedGateway: Sendable {
  package let rules: FaultRules
  /// What the feedback service has to hand out.
  package let feedback: FeedbackLists

  let ledger = TruthLedger()
  let recordFile: RecordFile?
  let memory: RecordedFrames?

  /// `recordFile`: where every accepted and refused frame is written to; `memory`: where they are kept for tests. Without both, a frame costs no allocation, no lock and no hash.
  package init(rules: FaultRules = FaultRules(), recordFile: RecordFile? = nil, memory: RecordedFrames? = nil) {
    self.rules = rules
    self.recordFile = recordFile
    self.memory = memory
    feedback = FeedbackLists(rules)
  }

  /// Whether the certificate of a client that has just proved to be `topic` is refused. To be asked once per connection attempt, before ``connect(topic:)``.
  package func refusesCertificate(topic: String) -> Bool {
    guard let refusal = rules.faults(forTopic: topic).refuseCertificate else { return false }
    guard ledger.attempted(topic: topic) <= refusal.connections ?? .max else { return false }
    ledger.change(topic) { $0.certificatesRefused += 1 }
    return true
  }

  /// - Parameter isForOtherEnvironment: see ``FaultRules/isForOtherEnvironment(_:)``. Such a connection is closed as soon as it is open, as Apple's gateway does.
  package func connect(topic: String, isForOtherEnvironment: Bool = false) -> SimulatedConnection {
    SimulatedConnection(to: self, topic: topic, isForOtherEnvironment: isForOtherEnvironment)
  }

  package func handshakeFailed() { ledger.handshakeFailed() }

  package func feedbackServed(_ count: Int, topic: String) { ledger.change(topic) { $0.feedbackServed += count } }

  /// What has happened so far. Exact for connections that have ended; a live one is at most one read behind.
  package func truth() -> GroundTruth { ledger.snapshot() }

  /// The last word, once all connections have ended: closes the record.
  package func finish() -> GroundTruth {
    var truth = ledger.snapshot()
    truth.recordProblem = recordFile?.finish()
    return truth
  }
}
