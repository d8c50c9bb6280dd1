/// Where a device is told about a Live Activity: each activity has a token of its own there.
package struct StoredActivityToken: Hashable, Sendable {
  /// What the app calls the activity; the same on all devices that follow it.
  package let activity: String
  /// The device's own token.
  package let device: [UInt8]
  package let token: [UInt8]
  package let registeredAt: StoreInstant

  /// The most devices of an activity. For more there are broadcasts.
  package static let deviceLimit = 10_000
  /// Seconds, after which the system has removed the activity: it ends after 8 hours, and stays on
  /// the lock screen for 4 more.
  package static let lifetime: Int64 = 12 * 3_600

  package init(activity: String, device: [UInt8], token: [UInt8], registeredAt: StoreInstant) {
    (self.activity, self.device, self.token, self.registeredAt) = (activity, device, token, registeredAt)
  }
}

/// What became of a registration.
package enum RegisteredActivity: Hashable, Sendable {
  case created, updated
  /// The activity has as many devices as it may.
  case refused
}
