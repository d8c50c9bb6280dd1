internal import Carillon
internal import PushService
internal import PushStore
internal import PushWire

/// What the store knows of notifications, and the engine does not.
struct NotificationNotes: Sendable {
  let app: String
  let store: any Store

  /// The most in one read.
  private static let portion = 1_000

  /// Those that are there.
  func devices(_ ids: [StoredUUID]) async throws -> [StoredUUID: StoredDevice] {
    var found: [StoredUUID: StoredDevice] = [:]
    for start in stride(from: 0, to: ids.count, by: Self.portion) {
      let part = Array(ids[start..<min(ids.count, start + Self.portion)])
      found.merge(try await store.devices(ids: part, app: app)) { first, _ in first }
    }
    return found
  }

  /// Stores notifications to suppressed devices with their outcome: nothing is sent.
  ///
  /// - Parameter references: one for each of them.
  /// - Returns: what each is called, in the same order.
  func suppress(_ references: [String?]) async throws -> [NotificationID] {
    guard !references.isEmpty else { return [] }
    let now = StoreInstant.now
    let run = IntakeRunID(milliseconds: UInt64(clamping: now.milliseconds), random: .random(in: 0 ... .max))
    let ids = references.indices.map { NotificationID(run: run, line: UInt32($0 + 1)) }
    var changes = IntakeChanges()
    changes.began = [IntakeChanges.Began(run: StoredRunID(run), app: app, at: now)]
    changes.notAccepted = ids.map {
      IntakeChanges.NotAccepted(
        notification: StoredNotificationID($0), state: Outcome.Kind.suppressed.rawValue, detail: "")
    }
    changes.ended = [(StoredRunID(run), now)]
    try await store.settle(changes)
    let written = zip(ids, references).compactMap { id, reference in reference.map { (StoredNotificationID(id), $0) } }
    if !written.isEmpty { try await store.add(written) }
    return ids
  }
}

extension StoredNotificationID {
  init(_ id: NotificationID) { self.init(run: StoredRunID(id.run), line: id.line) }
}
