/// What a device has a token for, besides its own one.
package enum ActivityName: Hashable, Sendable {
  /// A Live Activity that it shows. The app gives it the same name on all devices.
  case shown(String)
  /// Live Activities of a type that can be started there: `attributes-type`.
  case startable(String)

  package var text: String {
    switch self {
    case .shown(let name), .startable(let name): name
    }
  }

  package var isType: Bool { if case .startable = self { true } else { false } }
}

/// Where a device is told about Live Activities.
package struct StoredActivityToken: Hashable, Sendable {
  package let activity: ActivityName
  /// The device's own token.
  package let device: [UInt8]
  package let token: [UInt8]
  package let registeredAt: StoreInstant

  /// The most devices that show an activity. For more there are broadcasts.
  package static let deviceLimit = 10_000
  /// Seconds, after which the system has removed an activity that is shown: it ends after 8 hours,
  /// and stays on the lock screen for 4 more.
  package static let lifetime: Int64 = 12 * 3_600

  package init(activity: ActivityName, device: [UInt8], token: [UInt8], registeredAt: StoreInstant) {
    (self.activity, self.device, self.token, self.registeredAt) = (activity, device, token, registeredAt)
  }
}

/// What became of a registration.
package enum RegisteredActivity: Hashable, Sendable {
  case created, updated
  /// The activity has as many devices as it may.
  case refused
}
