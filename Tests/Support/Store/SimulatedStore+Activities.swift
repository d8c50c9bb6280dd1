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
    of activity: String, app: String, since instant: StoreInstant
  ) async throws(StoreError) -> [StoredActivityToken] {
    try await call { contents in
      contents.activities.filter {
        $0.app == app && $0.token.activity == activity && $0.token.registeredAt >= instant
      }.map(\.token).sorted { $0.device.lexicographicallyPrecedes($1.device) }
    }
  }

  package func forgetActivity(
    _ activity: String, device: [UInt8]?, app: String, until instant: StoreInstant
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
    try await call { $0.activities.removeAll { $0.token.registeredAt < instant } }
  }
}
