package import PushStore

extension SimulatedStore {
  package func forwardedFrames(since instant: StoreInstant) async throws(StoreError) -> [RememberedFrames] {
    try await call { contents in
      contents.frames.sorted { ($0.key.app, $0.key.client) < ($1.key.app, $1.key.client) }.flatMap { _, frames in
        frames.filter { !contents.isOver($0, instant) }.map(contents.remembered)
      }
    }
  }

  package func alreadyDelivered(app: String) async throws(StoreError) -> (count: Int, last: StoreInstant?) {
    try await call { ($0.alreadyDelivered[app]?.count ?? 0, $0.alreadyDelivered[app]?.last) }
  }

  package func undeliveredFeedback(
    app: String, after number: Int64, through last: Int64, limit: Int
  ) async throws(StoreError) -> [StoredGoneDevice] {
    try await call { contents in
      let all = contents.gone.prefix(Int(clamping: last)).filter { $0.app == app }
      let latest = Dictionary(all.map { ($0.token, $0.number) }) { max($0, $1) }
      let found = all.filter { entry in
        guard entry.number > number, latest[entry.token] == entry.number else { return false }
        let device = contents.devices[app]?.device(token: entry.token)
        return device.map { $0.registeredAt <= entry.since ?? entry.foundAt } ?? true
      }
      return Array(found.prefix(limit))
    }
  }

  package func lastFeedback(app: String) async throws(StoreError) -> Int64 {
    try await call { $0.gone.last { $0.app == app }?.number ?? 0 }
  }

  package func feedbackCursor(app: String) async throws(StoreError) -> Int64 {
    try await call { $0.feedbackCursors[app] ?? 0 }
  }

  package func setFeedbackCursor(app: String, to number: Int64) async throws(StoreError) {
    try await call { contents in contents.feedbackCursors[app] = max(contents.feedbackCursors[app] ?? 0, number) }
  }

  package func forgetForwarded(before instant: StoreInstant, life: BridgeLife?) async throws(StoreError) {
    try await call { contents in
      if let life {
        let lastSign = max(contents.bridgeLife?.lastSign ?? life.lastSign, life.lastSign)
        contents.bridgeLife = BridgeLife(lastSign: lastSign, pause: life.pause)
      }
      let known = contents
      contents.frames = known.frames.mapValues { frames in frames.filter { !known.isOver($0, instant) } }
      let connections = Set(contents.frames.values.joined().map(\.connection))
      contents.ends = contents.ends.filter { $0.value.at >= instant || connections.contains($0.key) }
    }
  }

  package func bridgeLife() async throws(StoreError) -> BridgeLife? {
    try await call { contents in
      let signs = contents.frames.values.joined().map(\.at) + [contents.bridgeLife?.lastSign].compactMap(\.self)
      return signs.max().map { BridgeLife(lastSign: $0, pause: contents.bridgeLife?.pause ?? 0) }
    }
  }
}

struct BridgeClient: Hashable {
  let app: String
  /// Its certificate.
  let client: String
}

extension StoreContents {
  mutating func write(_ changes: BridgeChanges) {
    for entry in changes.forwarded {
      let client = BridgeClient(app: entry.app, client: entry.client)
      frames[client, default: []].keep(entry, countLimit: changes.countLimit)
    }
    for end in changes.ended { ends[end.connection] = end }
    for (app, found) in changes.alreadyDelivered {
      let known = alreadyDelivered[app] ?? (0, found.last)
      alreadyDelivered[app] = (known.count + found.count, max(known.last, found.last))
    }
  }

  /// All answers are older than the instant. Without its run nothing is known but the arrival.
  fileprivate func isOver(_ entry: ForwardedFrames, _ instant: StoreInstant) -> Bool {
    guard entry.at < instant, let run = runs[entry.run] else { return entry.at < instant }
    return run.endedAt.map { $0 < instant } ?? false
  }

  fileprivate func remembered(_ entry: ForwardedFrames) -> RememberedFrames {
    var found = RememberedFrames(frames: entry)
    found.end = ends[entry.connection]
    guard let run = runs[entry.run] else { return found }
    found.answeredBy = run.endedAt
    for line in entry.firstLine..<(entry.firstLine + UInt32(entry.count)) {
      if run.accepted[line] != nil {
        if let last = found.acceptedLines.last, last.upperBound + 1 == line {
          found.acceptedLines[found.acceptedLines.count - 1] = last.lowerBound...line
        } else {
          found.acceptedLines.append(line...line)
        }
      }
      if let other = run.notAccepted[line] {
        found.notAccepted[line] = StoredOutcome(state: other.state, detail: other.detail, app: entry.app)
      }
    }
    return found
  }
}

extension [ForwardedFrames] {
  /// - Parameter entry: of the same client. They are in the order of their positions.
  fileprivate mutating func keep(_ entry: ForwardedFrames, countLimit: Int) {
    let place = place { $0.position < entry.position }
    let isKnown = place < count && self[place].position == entry.position
    replaceSubrange(place..<place + (isKnown ? 1 : 0), with: [entry])
    removeFirst(self.place { $0.position < entry.position - Int64(countLimit) })
  }
}
