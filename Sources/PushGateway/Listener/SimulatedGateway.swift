internal import Synchronization

/// A gateway without sockets: the fault rules, the ground truth and the feedback lists of any
/// number of apps, and a ``SimulatedConnection`` for each client.
///
/// A listener puts it behind TLS; a simulation drives it in virtual time. Safe to use from any
/// thread.
package final class SimulatedGateway: Sendable {
  /// The rules for new connections.
  package var rules: FaultRules { state.withLock { $0 } }
  /// The tuples that the feedback service has to deliver.
  package let feedback: FeedbackLists

  private let state: Mutex<FaultRules>
  let ledger = TruthLedger()
  let recordFile: RecordFile?
  let memory: RecordedFrames?

  /// - Parameters:
  ///   - recordFile: Receives a line for every accepted and refused frame.
  ///   - memory: Keeps the same frames for tests.
  ///
  /// Without both, a frame costs no allocation, no lock and no hash.
  package init(rules: FaultRules = FaultRules(), recordFile: RecordFile? = nil, memory: RecordedFrames? = nil) {
    state = Mutex(rules)
    (self.recordFile, self.memory) = (recordFile, memory)
    feedback = FeedbackLists(rules)
  }

  /// Replaces the rules for new connections. Rules for an app's first connections count from here
  /// on. Feedback lists stay as they are.
  package func replaceRules(_ rules: FaultRules) {
    state.withLock { $0 = rules }
    ledger.rulesReplaced()
  }

  /// Whether to refuse the certificate of a client that has proved to be `topic`. Call it once for
  /// each connection attempt, before ``connect(topic:isForOtherEnvironment:)``.
  package func refusesCertificate(topic: String) -> Bool {
    guard let refusal = rules.faults(forTopic: topic).refuseCertificate else { return false }
    guard ledger.attempted(topic: topic) <= refusal.connections ?? .max else { return false }
    ledger.change(topic) { $0.certificatesRefused += 1 }
    return true
  }

  /// - Parameter isForOtherEnvironment: See ``FaultRules/isForOtherEnvironment(_:)``. Such a
  ///   connection is closed as soon as it is open, as by Apple's gateway.
  package func connect(topic: String, isForOtherEnvironment: Bool = false) -> SimulatedConnection {
    SimulatedConnection(to: self, topic: topic, isForOtherEnvironment: isForOtherEnvironment)
  }

  package func handshakeFailed() { ledger.handshakeFailed() }

  package func feedbackServed(_ count: Int, topic: String) { ledger.change(topic) { $0.feedbackServed += count } }

  /// The counts so far: exact for connections that have ended, at most one read behind for open
  /// ones.
  package func truth() -> GroundTruth { ledger.snapshot() }

  /// The final counts, once all connections have ended. Closes the record.
  package func finish() -> GroundTruth {
    var truth = ledger.snapshot()
    truth.recordProblem = recordFile?.finish()
    return truth
  }
}
