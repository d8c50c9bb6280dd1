/// The changes that the bridge writes at one time.
package struct BridgeChanges: Sendable {
  package var forwarded: [ForwardedFrames] = []
  package var ended: [EndedConnection] = []
  /// Notifications that clients sent again and that were not sent twice, by app, and when that was
  /// known last.
  package private(set) var alreadyDelivered: [String: (count: Int, last: StoreInstant)] = [:]
  /// How many frames of each client are kept.
  package var countLimit = 65_536

  package init() {}

  package var isEmpty: Bool { forwarded.isEmpty && ended.isEmpty && alreadyDelivered.isEmpty }

  package mutating func addAlreadyDelivered(_ count: Int, app: String, at last: StoreInstant) {
    alreadyDelivered[app] = ((alreadyDelivered[app]?.count ?? 0) + count, last)
  }

  package mutating func add(_ frames: ForwardedFrames) {
    if let last = forwarded.indices.last, forwarded[last].append(frames) { return }
    forwarded.append(frames)
  }
}
