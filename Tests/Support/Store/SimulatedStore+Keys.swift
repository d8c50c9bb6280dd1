package import PushStore

// Keys, and what operators and callers have said.

extension SimulatedStore {
  package func add(_ key: StoredKey, by creator: String?) async throws(StoreError) -> Bool {
    try await call { contents throws(StoreError) in
      if let creator {
        guard let own = contents.keys[creator], own.revokedAt == nil, own.reach.covers(key.reach) else { return false }
      }
      if let known = contents.keys[key.id] {
        guard known.digest == key.digest else { throw .simulated(.failed, "the key \(key.id) is there already") }
        return true
      }
      contents.keys[key.id] = key
      return true
    }
  }

  package func keys() async throws(StoreError) -> [StoredKey] {
    try await call { $0.keys.values.sorted { ($0.createdAt, $0.id) < ($1.createdAt, $1.id) } }
  }

  package func revokeKey(_ id: String, at instant: StoreInstant) async throws(StoreError) -> Bool {
    try await call { contents in
      guard let key = contents.keys[id], key.revokedAt == nil else { return false }
      contents.keys[id]?.revokedAt = instant
      return true
    }
  }

  package func noteUse(of keys: [String: StoreInstant]) async throws(StoreError) {
    try await call { contents in
      for (id, instant) in keys where contents.keys[id]?.lastUsedAt ?? instant <= instant {
        contents.keys[id]?.lastUsedAt = instant
      }
    }
  }

  // MARK: Sessions

  package func sessions() async throws(StoreError) -> [StoredSession] { try await call { Array($0.sessions.values) } }
  package func begin(_ session: StoredSession, ending others: [[UInt8]]) async throws(StoreError) {
    try await call { contents in
      for digest in others { contents.sessions[digest] = nil }
      contents.sessions[session.digest] = contents.sessions[session.digest] ?? session
    }
  }
  package func endSession(_ digest: [UInt8]) async throws(StoreError) {
    try await call { $0.sessions[digest] = nil }
  }

  // MARK: Events

  package func add(_ events: [StoredEvent], keeping count: Int) async throws(StoreError) {
    try await call { contents in
      for event in events where !contents.events.contains(where: { $0.id == event.id }) {
        contents.events.insert(event, at: contents.events.place { $0.id.comes(before: event.id) })
        let group = contents.events.filter { $0.app == event.app && $0.kind == event.kind }
        let forgotten = Set(group.dropLast(count).map(\.id))
        contents.events.removeAll { forgotten.contains($0.id) }
      }
    }
  }

  package func events(
    of apps: AppReach, before id: StoredUUID?, limit: Int
  ) async throws(StoreError) -> [StoredEvent] {
    try await call { contents in
      contents.events.reversed().filter { event in
        apps == .all || event.app.map(apps.contains) ?? false
      }.filter { event in id.map { event.id.comes(before: $0) } ?? true }.prefix(limit).map { $0 }
    }
  }

  // MARK: Apps

  package func pausedApps() async throws(StoreError) -> [String: StoreInstant] { try await call { $0.pauses } }
  package func pause(app: String, at instant: StoreInstant) async throws(StoreError) {
    try await call { contents in contents.pauses[app] = contents.pauses[app] ?? instant }
  }
  package func resume(app: String) async throws(StoreError) { try await call { $0.pauses[app] = nil } }
  package func lastFeedbackPoll(app: String) async throws(StoreError) -> StoreInstant? {
    try await call { $0.feedbackPolls[app] }
  }
  package func noteFeedbackPoll(app: String, at instant: StoreInstant) async throws(StoreError) {
    try await call { $0.feedbackPolls[app] = instant }
  }

  // MARK: Requests that callers may repeat

  package func begin(
    _ request: IdempotentRequest, oldest: StoreInstant
  ) async throws(StoreError) -> IdempotentBeginning {
    try await call { contents in
      let key = StoreContents.RequestKey(request)
      guard let known = contents.requests[key], known.request.begunAt >= oldest else {
        contents.requests[key] = (request, nil)
        return .new
      }
      guard known.request.digest == request.digest else { return .different }
      if let answer = known.answer { return .answered(answer) }
      if known.request.attempt == request.attempt { return .new }
      let isElsewhere = contents.ledger.nodes.values.contains {
        $0.isAlive && $0.incarnation == known.request.holder && $0.incarnation != request.holder
      }
      return isElsewhere ? .begunElsewhere : .begun
    }
  }

  package func finish(_ request: IdempotentRequest, _ answer: StoredAnswer) async throws(StoreError) {
    try await call { $0.requests[StoreContents.RequestKey(request)]?.answer = answer }
  }

  package func withdraw(_ request: IdempotentRequest) async throws(StoreError) {
    try await call { $0.requests[StoreContents.RequestKey(request)] = nil }
  }

  package func forgetRequests(begunBefore instant: StoreInstant) async throws(StoreError) {
    try await call { contents in contents.requests = contents.requests.filter { $0.value.request.begunAt >= instant } }
  }
}

extension StoreContents.RequestKey {
  fileprivate init(_ request: IdempotentRequest) { self.init(caller: request.caller, key: request.key) }
}
