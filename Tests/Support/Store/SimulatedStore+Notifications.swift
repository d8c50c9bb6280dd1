package import PushStore

extension SimulatedStore {
  package func write(_ changes: IntakeChanges) throws(StoreError) {
    let next = writeCount + 1
    try callNow { contents throws(StoreError) in
      // The answer to it was lost: it is in place.
      if contents.writeCounts[node] == next { return }
      try contents.write(changes, by: node)
      contents.writeCounts[node] = next
    }
    noteWrite(next)
  }

  package func notification(_ id: StoredNotificationID) async throws(StoreError) -> StoredNotification {
    try await call { contents in
      var found = StoredNotification()
      found.reference = contents.references[id.run]?[id.line]
      guard let run = contents.runs[id.run] else { return found }
      found.outcome = run.outcome(id.line)
      found.isDoubted = run.copies[id.line] != nil
      return found
    }
  }

  package func outcomes(of parts: [StoredLines]) async throws(StoreError) -> OutcomeCounts {
    try await call { $0.outcomes(of: parts) }
  }

  package func outcomeGroups(app: String, after number: Int64, limit: Int) async throws(StoreError) -> [OutcomeGroup] {
    try await call { contents in
      var count = 0
      return Array(
        contents.outcomeGroups.lazy.filter { $0.app == app && $0.last > number }.prefix { group in
          defer { count += group.count }
          return count < limit
        })
    }
  }

  package func outcomeProgress(app: String) async throws(StoreError) -> OutcomeProgress {
    try await call { OutcomeProgress(last: $0.outcomeNumbers[app] ?? 0, delivered: $0.delivered[app] ?? 0) }
  }

  package func noteDelivered(_ numbers: [String: Int64]) async throws(StoreError) {
    try await call { $0.delivered.merge(numbers) { max($0, $1) } }
  }

  package func labels(of parts: [StoredLines]) async throws(StoreError) -> NotificationLabels {
    try await call { contents in
      var labels = NotificationLabels()
      for part in parts {
        for (line, text) in contents.references[part.run] ?? [:] where part.lines.contains(line) {
          labels.references[StoredNotificationID(run: part.run, line: line)] = text
        }
        for batch in contents.batches.values {
          for lines in batch.parts where lines.run == part.run && lines.lines.overlaps(part.lines) {
            labels.batches.append((lines: lines, batch: batch.id))
          }
        }
      }
      return labels
    }
  }

  package func batch(_ id: StoredUUID) async throws(StoreError) -> StoredBatch? { try await call { $0.batches[id] } }

  package func goneDevices(
    app: String, after cursor: Int64, limit: Int
  ) async throws(StoreError) -> [StoredGoneDevice] {
    try await call { Array($0.gone.dropFirst(Int(cursor)).lazy.filter { $0.app == app }.prefix(limit)) }
  }

  package func endRuns(except open: Set<StoredRunID>, at instant: StoreInstant) async throws(StoreError) {
    try await call { contents in
      for (id, run) in contents.runs where run.endedAt == nil && !open.contains(id) {
        // Those of other nodes are in their journals.
        let isOwn = run.node == node && !contents.blocks.has(id)
        guard ledger == nil || isOwn || plantedMistake == .endsRunsOfOthers else { continue }
        contents.runs[id]?.endedAt = instant
      }
    }
  }

  package func forget(endedBefore instant: StoreInstant) async throws(StoreError) {
    try await call { contents in
      contents.runs = contents.runs.filter { $0.value.endedAt.map { $0 >= instant } ?? true }
      let runs = contents.runs
      contents.blocks.carriages.removeAll { runs[$0.run] == nil }
      contents.outcomeGroups.removeAll { $0.at < instant }
      // The identifiers of runs begin with their milliseconds.
      let oldest = UInt64(clamping: instant.milliseconds) << 16
      contents.references = contents.references.filter { $0.key.high >= oldest || runs[$0.key] != nil }
      contents.batches = contents.batches.filter { _, batch in
        batch.createdAt >= instant || batch.parts.contains { runs[$0.run] != nil }
      }
    }
  }
}

/// A run of notifications, with their outcomes by line.
struct OutcomeRun {
  let app: String
  var node: String
  /// The node was forgotten.
  var isLost = false
  var endedAt: StoreInstant?
  /// How it is known. The first time that a notification was accepted counts.
  var accepted: [UInt32: String] = [:]
  var notAccepted: [UInt32: (state: String, detail: String)] = [:]
  /// How many copies of notifications may have arrived.
  var copies: [UInt32: Int] = [:]

  mutating func accept(_ lines: ClosedRange<UInt32>, _ confirmation: String) {
    for line in lines where accepted[line] == nil { accepted[line] = confirmation }
  }

  /// What was sent again after a crash may have both: it was accepted then.
  func outcome(_ line: UInt32) -> StoredOutcome? {
    if let confirmation = accepted[line] { return StoredOutcome(state: "accepted", detail: confirmation, app: app) }
    if let found = notAccepted[line] { return StoredOutcome(state: found.state, detail: found.detail, app: app) }
    return isLost ? .withoutNode(app: app) : nil
  }

  func add(_ lines: ClosedRange<UInt32>, to counts: inout OutcomeCounts) {
    for (line, confirmation) in accepted where lines.contains(line) {
      counts.accepted[confirmation, default: 0] += 1
    }
    for (line, found) in notAccepted where lines.contains(line) && accepted[line] == nil {
      counts.others[found.state, default: [:]][found.detail, default: 0] += 1
    }
    for (line, count) in copies where lines.contains(line) {
      counts.doubted += 1
      counts.copies += count
    }
    guard isLost else { return }
    counts.add(lines.count { accepted[$0] == nil && notAccepted[$0] == nil }, of: .withoutNode(app: ""))
  }
}

extension StoreContents {
  /// Of all notifications.
  package var outcomes: OutcomeCounts { outcomes(of: runs.keys.map { StoredLines(run: $0, lines: 0...UInt32.max) }) }

  func outcomes(of parts: [StoredLines]) -> OutcomeCounts {
    parts.reduce(into: OutcomeCounts()) { counts, part in runs[part.run]?.add(part.lines, to: &counts) }
  }

  package func outcome(of id: StoredNotificationID) -> StoredOutcome? { runs[id.run]?.outcome(id.line) }

  mutating func write(_ all: IntakeChanges, by node: String) throws(StoreError) {
    let changes = write(all.shared, of: all)
    let new = Set(changes.began.map(\.run))
    let used = changes.accepted.map(\.run) + changes.notAccepted.map(\.notification.run) + changes.doubted.map(\.run)
    guard used.allSatisfy({ runs[$0] != nil || new.contains($0) }) else {
      throw .simulated(.unusable, "a run of notifications is missing")
    }
    for began in changes.began {
      var run = runs[began.run] ?? OutcomeRun(app: began.app, node: node)
      (run.endedAt, run.node, run.isLost) = (nil, node, false)
      runs[began.run] = run
    }
    let settled = changes.accepted.map(\.run) + changes.notAccepted.map(\.notification.run)
    if settled.contains(where: { runs[$0]?.endedAt != nil }) { problems.append("a run that had ended gets an outcome") }
    for (id, text) in changes.references where references[id.run]?[id.line] == nil {
      references[id.run, default: [:]][id.line] = text
    }
    for batch in changes.batches {
      var known = batches[batch.id] ?? batch
      if batches[batch.id] != nil { known.parts += batch.parts }
      batches[batch.id] = known
    }
    for entry in changes.accepted { runs[entry.run]?.accept(entry.lines, entry.confirmation) }
    for entry in changes.notAccepted {
      runs[entry.notification.run]?.notAccepted[entry.notification.line] = (entry.state, entry.detail)
    }
    for doubt in changes.doubted { for line in doubt.lines { runs[doubt.run]?.copies[line, default: 0] += 1 } }
    for device in changes.gone { note(device) }
    for var group in changes.passed.groups + changes.outcomes.groups {
      outcomeNumbers[group.app, default: 0] += Int64(group.count)
      group.last = outcomeNumbers[group.app, default: 0]
      outcomeGroups.append(group)
    }
    write(changes.bridge)
    for ended in changes.ended { runs[ended.run]?.endedAt = ended.at }
    settle(changes.shared)
  }
}
