package import PushStore

extension SimulatedStore {
  package func register(
    _ activity: StoredActivityToken, app: String, limit: Int
  ) async throws(StoreError) -> RegisteredActivity {
    try await call { contents in
      let others = contents.activities.filter { $0.app == app && $0.token.activity == activity.activity }
      let isKnown = others.contains { $0.token.device == activity.device }
      guard isKnown || others.count < limit else { return .refused }
      contents.activities.removeAll { known in
        known.app == app
          && (known.token.token == activity.token
            || known.token.activity == activity.activity && known.token.device == activity.device)
      }
      contents.activities.append((app, activity))
      return isKnown ? .updated : .created
    }
  }

  package func activityTokens(
    of activity: ActivityName, app: String, devices: [[UInt8]]?, since instant: StoreInstant
  ) async throws(StoreError) -> [StoredActivityToken] {
    let devices = devices.map(Set.init)
    return try await call { contents in
      contents.activities.filter {
        $0.app == app && $0.token.activity == activity && $0.token.registeredAt >= instant
          && devices?.contains($0.token.device) ?? true
      }.map(\.token).sorted { $0.device.lexicographicallyPrecedes($1.device) }
    }
  }

  package func activityTokens(
    ofDevices devices: [[UInt8]], app: String
  ) async throws(StoreError) -> [StoredActivityToken] {
    try await call { contents in
      contents.activities.filter { $0.app == app && devices.contains($0.token.device) }.map(\.token)
    }
  }

  package func forgetActivity(
    _ activity: ActivityName, device: [UInt8]?, app: String, until instant: StoreInstant
  ) async throws(StoreError) -> Bool {
    try await call { contents in
      let count = contents.activities.count
      contents.activities.removeAll { known in
        known.app == app && known.token.activity == activity && known.token.registeredAt <= instant
          && device.map { $0 == known.token.device } ?? true
      }
      return contents.activities.count < count
    }
  }

  package func forgetActivities(registeredBefore instant: StoreInstant) async throws(StoreError) {
    try await call { $0.activities.removeAll { $0.token.registeredAt < instant && !$0.token.activity.isType } }
  }
}

extension StoreContents {
  /// By device.
  func activityTokens(of activity: ActivityName, app: String) -> [[UInt8]: [UInt8]] {
    let known = activities.filter { $0.app == app && $0.token.activity == activity }.map(\.token)
    return Dictionary(known.map { ($0.device, $0.token) }) { first, _ in first }
  }

  /// A device has another token now. What that one has already stays.
  mutating func moveActivities(from former: [UInt8], to token: [UInt8], app: String) {
    let names = Set(activities.filter { $0.app == app && $0.token.device == token }.map(\.token.activity))
    activities = activities.compactMap { known in
      guard known.app == app, known.token.device == former else { return known }
      guard !names.contains(known.token.activity) else { return nil }
      let moved = StoredActivityToken(
        activity: known.token.activity, device: token, token: known.token.token, registeredAt: known.token.registeredAt)
      return (app, moved)
    }
  }
}
