/// Something that somebody did with the service, or that the service noticed: for those who ask
/// later who it was, and since when.
package struct StoredEvent: Hashable, Sendable {
  package enum Kind: String, Hashable, Sendable, CaseIterable {
    /// Somebody did it.
    case action
    /// Somebody tried, and was refused.
    case refusal
    /// The service noticed it.
    case change
  }

  /// Of version 7: a later event has a greater one.
  package let id: StoredUUID
  package let at: StoreInstant
  package let kind: Kind
  /// What happened, such as `app paused`.
  package let action: String
  /// Nil: it concerns the service.
  package var app: String?
  /// The campaign, key, node or channel that it happened to, or the name of an alarm.
  package var subject: String?
  /// The id of the key that was shown.
  package var key: String?
  /// Whence it was asked for.
  package var address: String?
  /// Which of those that share the store noticed it; nil: there is one.
  package var node: String?
  package var reason: String?

  /// The most that are kept of an app and kind: a flood of one drives out no other.
  package static let keptCount = 10_000

  package init(id: StoredUUID, at: StoreInstant, _ kind: Kind, _ action: String, app: String? = nil) {
    (self.id, self.at, self.kind, self.action, self.app) = (id, at, kind, action, app)
  }
}
