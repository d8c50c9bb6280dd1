package import PushStore
internal import Synchronization

/// The disk of a simulated store.
package final class StoreDisk: Sendable {
  private let state = Mutex(StoreContents())

  package init() {}

  package var contents: StoreContents { state.withLock { $0 } }

  @discardableResult
  package func change<Result: Sendable, Failure: Error>(
    _ body: (inout StoreContents) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    try state.withLock { contents throws(Failure) in try body(&contents) }
  }
}

/// What a simulated store has on disk. It outlasts processes.
package struct StoreContents: Sendable {
  struct RequestKey: Hashable {
    var caller: String
    var key: String
  }

  var keys: [String: StoredKey] = [:]
  var sessions: [[UInt8]: StoredSession] = [:]
  /// In the order of their ids.
  var events: [StoredEvent] = []
  /// By node.
  var writeCounts: [String: Int64] = [:]
  var runs: [StoredRunID: OutcomeRun] = [:]
  var references: [StoredRunID: [UInt32: String]] = [:]
  var batches: [StoredUUID: StoredBatch] = [:]
  package internal(set) var outcomeGroups: [OutcomeGroup] = []
  /// Of the last one, by app.
  var outcomeNumbers: [String: Int64] = [:]
  /// The number of the last one that a receiver has acknowledged, by app.
  var delivered: [String: Int64] = [:]
  /// In the order of their numbers, from 1.
  var gone: [StoredGoneDevice] = []
  var lastGone: Int64 = 0
  var blocks = BlockContents()
  var activities: [(app: String, token: StoredActivityToken)] = []
  /// By app and member.
  var admissions: [String: [[UInt8]: Admissions]] = [:]

  /// By app.
  package internal(set) var devices: [String: DeviceList] = [:]
  /// The last key that a device got.
  package var lastKey: Int64 = 0

  var pauses: [String: StoreInstant] = [:]
  var feedbackPolls: [String: StoreInstant] = [:]
  var requests: [RequestKey: (request: IdempotentRequest, answer: StoredAnswer?)] = [:]

  package var campaigns: [StoredUUID: StoredCampaign] = [:]
  package internal(set) var parts: [StoredUUID: [StoredCampaignPart]] = [:]
  package var uploads: [StoredUUID: [AudiencePiece]] = [:]
  var members: [StoredUUID: [MemberPiece]] = [:]
  package var ledger = LedgerContents()

  var frames: [BridgeClient: [ForwardedFrames]] = [:]
  var ends: [UInt64: EndedConnection] = [:]
  var alreadyDelivered: [String: (count: Int, last: StoreInstant)] = [:]
  var feedbackCursors: [String: Int64] = [:]
  var bridgeLife: BridgeLife?

  /// What no store may ever be asked.
  package internal(set) var problems: [String] = []
}

extension StoreError {
  static func simulated(_ kind: Kind, _ reason: String) -> StoreError {
    StoreError(kind, path: "store.db", "the store store.db cannot be used: \(reason)")
  }
}

extension StoredUUID {
  func comes(before other: StoredUUID) -> Bool { (high, low) < (other.high, other.low) }
}

extension Array {
  /// The place behind the elements that satisfy a condition. They are the first ones.
  func place(behind isBefore: (Element) -> Bool) -> Int {
    var (low, high) = (startIndex, endIndex)
    while low < high {
      let middle = (low + high) / 2
      if isBefore(self[middle]) { low = middle + 1 } else { high = middle }
    }
    return low
  }
}
