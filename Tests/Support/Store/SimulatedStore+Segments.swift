package import PushStore
internal import PushWire

extension SimulatedStore: Ledger {
  package func nodes() async throws(StoreError) -> [StoredNode]? {
    guard ledger != nil else { return nil }
    return try await call { contents in
      contents.ledger.nodes.values.sorted { $0.name < $1.name }.map { node in
        var node = node
        node.leads = node.isAlive && contents.ledger.leader == node.incarnation
        node.silence = contents.ledger.silence(of: node.incarnation)
        return node
      }
    }
  }

  package func join(_ node: String, replacing former: Int64?) async throws(StoreError) -> Int64? {
    guard ledger != nil else { return 0 }
    return try await call { contents in
      let known = contents.ledger.nodes[node]
      if let known, known.isAlive, known.incarnation != former { return nil }
      if let known, known.incarnation != former { contents.blocks.free(known.incarnation) }
      contents.ledger.lastIncarnation += 1
      let joined = contents.ledger.lastIncarnation
      contents.ledger.nodes[node] = StoredNode(name: node, incarnation: joined, beat: 0, isAlive: true)
      contents.ledger.noteBeat(of: joined)
      contents.ledger.journals[node] = self.node
      if let former, contents.ledger.leader == former { contents.ledger.leader = joined }
      if let former, former != 0 { contents.blocks.move(from: former, to: joined) }
      for index in contents.ledger.segments.indices {
        let segment = contents.ledger.segments[index]
        if let former, segment.owner == former, !segment.row.isSettled {
          contents.ledger.segments[index].owner = joined
        }
      }
      return joined
    }
  }

  package func beat(of incarnation: Int64, telling facts: NodeFacts) async throws(StoreError) -> StoreInstant? {
    guard ledger != nil else { return StoreInstant(milliseconds: 0) }
    return try await call { contents in
      guard var node = contents.ledger.nodes.values.first(where: { $0.incarnation == incarnation && $0.isAlive }) else {
        return nil
      }
      node.beat += 1
      node.facts = facts
      contents.ledger.nodes[node.name] = node
      contents.ledger.noteBeat(of: incarnation)
      return StoreInstant(milliseconds: 0)
    }
  }

  package func fence(_ node: StoredNode) async throws(StoreError) -> Bool {
    try await call { contents in
      guard var now = contents.ledger.nodes[node.name], now.isAlive,
        (now.incarnation, now.beat) == (node.incarnation, node.beat)
      else { return false }
      if contents.ledger.isHeard(now) { contents.problems.append("\(now.name) lives, and others took its place") }
      (now.isAlive, now.isLost) = (false, true)
      contents.blocks.free(node.incarnation)
      contents.ledger.nodes[node.name] = now
      return true
    }
  }

  package func lead(_ incarnation: Int64) async throws(StoreError) -> Bool {
    guard ledger != nil else { return true }
    return try await call { contents in
      let alive = contents.ledger.nodes.values.filter(\.isAlive).map(\.incarnation)
      guard alive.contains(incarnation) else { return false }
      if let leader = contents.ledger.leader, leader != incarnation, alive.contains(leader) { return false }
      contents.ledger.leader = incarnation
      return true
    }
  }

  package func yield(_ incarnation: Int64) async throws(StoreError) {
    guard ledger != nil else { return }
    try await call { contents in
      if contents.ledger.leader == incarnation { contents.ledger.leader = nil }
    }
  }

  package func leave(_ incarnation: Int64) async throws(StoreError) {
    guard ledger != nil else { return }
    try await call { contents in
      for node in contents.ledger.nodes.values where node.incarnation == incarnation {
        contents.ledger.nodes[node.name]?.isAlive = false
      }
    }
  }

  package func setDraining(_ isDraining: Bool, node: String) async throws(StoreError) -> Bool {
    try await call { contents in
      guard contents.ledger.nodes[node]?.isAlive == true else { return false }
      contents.ledger.nodes[node]?.isDraining = isDraining
      return true
    }
  }

  package func forget(node: String) async throws(StoreError) -> Bool {
    try await call { contents in
      guard let known = contents.ledger.nodes[node], !known.isAlive else { return false }
      contents.blocks.free(known.incarnation)
      contents.ledger.nodes[node] = nil
      let journal = contents.ledger.journals.removeValue(forKey: node)
      let isUsed = contents.ledger.nodes.values.contains { $0.isAlive && contents.ledger.journals[$0.name] == journal }
      for (id, run) in contents.runs where !isUsed && run.node == journal && run.endedAt == nil {
        guard !contents.blocks.has(id) else { continue }
        contents.runs[id]?.isLost = true
        contents.runs[id]?.endedAt = StoreInstant(milliseconds: 0)
      }
      contents.ledger.takeovers.removeAll { $0.node == node }
      return true
    }
  }

  package func nodeWork() async throws(StoreError) -> [String: NodeWork] {
    try await call { contents in
      var found: [String: NodeWork] = [:]
      for node in contents.ledger.nodes.values {
        let count = contents.ledger.segments.count { $0.owner == node.incarnation && !$0.row.isSettled }
        if count > 0 { found[node.name, default: NodeWork()].segmentCount = count }
      }
      for takeover in contents.ledger.takeovers {
        var work = found[takeover.node] ?? NodeWork()
        work.takenOverCount += 1
        work.possibleDuplicateCount += takeover.possibleDuplicateCount
        work.lastTakeover = max(work.lastTakeover ?? takeover.at, takeover.at)
        found[takeover.node] = work
      }
      return found
    }
  }

  package func note(_ takeover: SegmentTakeover) async throws(StoreError) {
    try await call { contents in
      let isKnown = contents.ledger.takeovers.contains {
        $0.segment == takeover.segment && $0.epoch == takeover.epoch
      }
      if !isKnown, contents.campaigns[takeover.segment.campaign] != nil { contents.ledger.takeovers.append(takeover) }
    }
  }

  // MARK: Rates

  package func exchange(
    _ claims: [RateClaim], number: Int64, by incarnation: Int64
  ) async throws(StoreError) -> [String: RateShare] {
    try await call { contents in
      let alive = Set(contents.ledger.nodes.values.filter(\.isAlive).map(\.incarnation))
      guard alive.contains(incarnation), number >= contents.ledger.exchanges[incarnation] ?? 0 else { return [:] }
      contents.ledger.exchanges[incarnation] = number
      for name in Array(contents.ledger.rates.keys) {
        let isNamed = claims.contains { $0.name == name }
        let clock = contents.ledger.clock
        for node in Array(contents.ledger.rates[name, default: [:]].keys) {
          if alive.contains(node), node != incarnation || isNamed { continue }
          contents.ledger.rates[name]?[node] = nil
          contents.ledger.freedRates[name, default: [:]][node] = clock
        }
      }
      var shares: [String: RateShare] = [:]
      for claim in claims {
        let others = contents.ledger.rates[claim.name, default: [:]].filter { $0.key != incarnation }
        let free = claim.limit - others.values.reduce(0) { $0 + $1.share }
        let share = max(0, min(claim.share, free))
        contents.ledger.rates[claim.name, default: [:]][incarnation] = RateShare.Peer(
          share: share, demand: claim.demand)
        let isUsed = contents.ledger.freedRates[claim.name, default: [:]].contains { node, at in
          node != incarnation && contents.ledger.clock.since(at) < RateShare.memory
        }
        shares[claim.name] = RateShare(
          share: share, peers: others.sorted { $0.key < $1.key }.map(\.value), isUsed: isUsed)
      }
      return shares
    }
  }

  // MARK: Parts

  package func sharedParts(of apps: [String], orIn states: [String]) async throws(StoreError) -> [SharedPart] {
    try await call { contents in
      let campaigns = contents.campaigns.values.filter {
        (apps.contains($0.app) || states.contains($0.state)) && $0.endedAt == nil
      }
      return campaigns.sorted { $0.id.comes(before: $1.id) }.flatMap { campaign in
        (contents.parts[campaign.id] ?? []).filter { $0.endedAt == nil }.compactMap {
          contents.sharedPart(campaign.id, $0.number)
        }
      }
    }
  }

  package func share(
    parts: [Int: StoreInstant], of campaign: StoredUUID, at instant: StoreInstant
  ) async throws(StoreError) {
    try await call { contents in
      let numbers = Set((contents.parts[campaign] ?? []).map(\.number))
      let known = parts.filter { numbers.contains($0.key) }
      contents.ledger.openParts[campaign] = known
      for number in known.keys {
        contents.ledger.dividedKeys[campaign, default: [:]][number, default: 0] += 0
        contents.change(number, of: campaign) { $0.begunAt = $0.begunAt ?? instant }
      }
    }
  }

  package func memberRanges(
    of campaign: StoredUUID, part: Int, after key: Int64, limit: Int
  ) async throws(StoreError) -> [MemberRange] {
    try await call { contents in
      let pieces = (contents.members[campaign] ?? []).filter { $0.part == part && $0.last > key }
      return pieces.sorted { $0.last < $1.last }.prefix(limit).map {
        MemberRange(keys: $0.first...$0.last, count: $0.keys.count)
      }
    }
  }

  package func divide(
    _ ranges: [MemberRange], of campaign: StoredUUID, part: Int, after key: Int64
  ) async throws(StoreError) -> Bool {
    guard let last = ranges.last?.keys.upperBound else { return true }
    return try await call { contents in
      guard let known = contents.parts[campaign], known.contains(where: { $0.number == part }),
        contents.ledger.dividedKeys[campaign]?[part] ?? 0 == key
      else { return false }
      contents.ledger.dividedKeys[campaign, default: [:]][part] = last
      contents.ledger.segments += ranges.map { range in
        let id = SegmentID(campaign: campaign, part: part, firstKey: range.keys.lowerBound)
        return LedgerContents.Segment(row: StoredSegment(id: id, lastKey: range.keys.upperBound, count: range.count))
      }
      contents.ledger.segments.sort { $0.row.id.comes(before: $1.row.id) }
      return true
    }
  }

  package func sharedProgress(
    of campaigns: [StoredUUID]
  ) async throws(StoreError) -> [StoredUUID: [Int: SharedPartProgress]] {
    try await call { contents in
      var found: [StoredUUID: [Int: SharedPartProgress]] = [:]
      for campaign in campaigns {
        for (number, key) in contents.ledger.dividedKeys[campaign] ?? [:] {
          var part = SharedPartProgress()
          (part.dividedKey, part.openUntil) = (key, contents.ledger.openParts[campaign]?[number])
          for segment in contents.ledger.segments.map(\.row)
          where segment.id.campaign == campaign && segment.id.part == number {
            part.segmentCount += 1
            if segment.isSettled { part.settledSegmentCount += 1 }
            if let account = segment.account { part.accounts.append(account) }
          }
          found[campaign, default: [:]][number] = part
        }
      }
      return found
    }
  }

  // MARK: Segments

  package func claimSegments(
    of campaign: StoredUUID, part: Int, limit: Int, by incarnation: Int64, known: [SegmentID]
  ) async throws(StoreError) -> [StoredSegment] {
    var read: [SegmentID: StoredSegment] = [:]
    if plantedMistake == .readsBeforeTheClaim {
      let rows = try await call { $0.ledger.segments.map(\.row) }
      read = Dictionary(rows.map { ($0.id, $0) }) { first, _ in first }
      // Long before.
      for _ in 0..<10 { try await call { _ in } }
    }
    return try await call { [read] contents in
      guard contents.ledger.nodes.values.contains(where: { $0.isAlive && $0.incarnation == incarnation }) else {
        return []
      }
      var claimed: [StoredSegment] = []
      for index in contents.ledger.segments.indices where claimed.count < limit {
        var segment = contents.ledger.segments[index]
        guard segment.row.id.campaign == campaign, segment.row.id.part == part else { continue }
        let isLost = segment.owner == incarnation && !segment.row.isSettled && !known.contains(segment.row.id)
        guard isLost || contents.ledger.isFree(segment) else { continue }
        let former = segment.owner
        segment.owner = incarnation
        segment.row.epoch += 1
        segment.row.inherited = segment.row.granted
        (segment.row.base, segment.row.rowCount, segment.row.reportNumber) = (nil, 0, 0)
        segment.row.isWithdrawn = false
        contents.ledger.segments[index] = segment
        if let stale = read[segment.row.id] {
          (segment.row.granted, segment.row.inherited) = (stale.granted, stale.granted)
          (segment.row.settled, segment.row.account) = (stale.settled, stale.account)
        }
        segment.row.lostOwner = contents.ledger.nodes.values.first { $0.incarnation == former && !$0.isAlive }?.name
        claimed.append(segment.row)
      }
      return claimed
    }
  }

  package func release(_ segments: [SegmentID: Int64], by incarnation: Int64) async throws(StoreError) {
    try await call { contents in
      for index in contents.ledger.segments.indices {
        let segment = contents.ledger.segments[index]
        guard segment.owner == incarnation, segments[segment.row.id] == segment.row.epoch else { continue }
        contents.ledger.segments[index].owner = nil
      }
    }
  }

  package func segments(of incarnation: Int64) async throws(StoreError) -> [StoredSegment] {
    try await call { contents in
      contents.ledger.segments.filter { $0.owner == incarnation && !$0.row.isSettled }.map(\.row)
    }
  }

  package func report(
    _ reports: [SegmentReport], by incarnation: Int64
  ) throws(StoreError) -> [SegmentID: SharedPart] {
    guard !reports.isEmpty else { return [:] }
    return try callNow { contents in
      var written: [SegmentID: SharedPart] = [:]
      for report in reports {
        guard let index = contents.ledger.segments.firstIndex(where: { $0.row.id == report.id }) else { continue }
        var segment = contents.ledger.segments[index]
        let isOwner = segment.owner == incarnation && segment.row.epoch == report.epoch
        let isNext = segment.row.reportNumber < report.number && !segment.row.isSettled
        let isAgain = segment.row.reportNumber == report.number && segment.row.settled == report.settled
        guard isOwner && (isNext || isAgain) || plantedMistake == .ignoresTheEpoch else { continue }
        segment.row.reportNumber = report.number
        segment.row.granted = max(segment.row.granted, report.granted)
        (segment.row.settled, segment.row.doubted) = (report.settled, report.doubted)
        (segment.row.account, segment.row.base) = (report.account, report.base)
        if plantedMistake == .splitsReports, !report.isSettled {
          (segment.row.account, segment.nextAccount) = (segment.nextAccount, report.account)
        }
        segment.row.rowCount = max(segment.row.rowCount, report.rows.after + report.rows.count)
        segment.row.isSettled = report.isSettled
        (segment.row.isWithdrawn, segment.row.unsent) = (report.isWithdrawn, report.unsent)
        contents.ledger.segments[index] = segment
        contents.ledger.add(report)
        written[report.id] = contents.sharedPart(report.id.campaign, report.id.part)
      }
      return written
    }
  }

  package func audiencePieces(of campaign: StoredUUID) async throws(StoreError) -> [AudiencePiece.Head] {
    try await call { contents in
      let byteCount = contents.campaigns[campaign]?.upload.byteCount ?? 0
      return contents.uploads[campaign, default: []].map(\.head).filter { $0.start < byteCount }
    }
  }

  package func bytes(of piece: AudiencePiece.Head, of campaign: StoredUUID) async throws(StoreError) -> [UInt8]? {
    try await call { $0.uploads[campaign, default: []].first { $0.head == piece }?.bytes }
  }

  package func list(leftOut rows: [UInt8], number: Int, of campaign: StoredUUID) async throws(StoreError) {
    try await call { contents in
      let segment = SegmentID(campaign: campaign, part: -1, firstKey: 0)
      contents.ledger.rows.removeAll { $0.segment == segment && $0.rows.after >= number }
      contents.ledger.rows.append(
        LedgerContents.Rows(segment: segment, epoch: 0, rows: OutcomeRows(after: number, count: 0, bytes: rows)))
    }
  }

  package func outcomeRows(
    of campaign: StoredUUID, after cursor: OutcomeRowsCursor?, limit: Int
  ) async throws(StoreError) -> (rows: [UInt8], next: OutcomeRowsCursor)? {
    try await call { contents in
      let all = contents.ledger.rows.filter { $0.segment.campaign == campaign }
        .sorted { $0.cursor.comes(before: $1.cursor) }
      let found = all.filter { rows in cursor.map { $0.comes(before: rows.cursor) } ?? true }.prefix(limit)
      return found.last.map { (found.flatMap(\.rows.bytes), $0.cursor) }
    }
  }
}

extension LedgerContents {
  fileprivate mutating func add(_ report: SegmentReport) {
    guard report.rows.count > 0 else { return }
    let new = Rows(segment: report.id, epoch: report.epoch, rows: report.rows)
    if let index = rows.firstIndex(where: { $0.cursor == new.cursor }) { rows[index] = new } else { rows.append(new) }
  }
}

extension StoreContents {
  /// Nil: it is not shared.
  fileprivate func sharedPart(_ id: StoredUUID, _ number: Int) -> SharedPart? {
    guard ledger.dividedKeys[id]?[number] != nil, let campaign = campaigns[id] else { return nil }
    let free = ledger.segments.filter {
      $0.row.id.campaign == id && $0.row.id.part == number && ledger.isFree($0)
    }
    return SharedPart(
      campaign: id, part: number, state: campaign.state, openUntil: ledger.openParts[id]?[number],
      hasFreeSegments: !free.isEmpty, hasBegunSegments: free.contains { $0.row.epoch > 0 })
  }
}

extension OutcomeRowsCursor {
  fileprivate func comes(before other: OutcomeRowsCursor) -> Bool {
    if segment != other.segment { return segment.comes(before: other.segment) }
    return (epoch, after) < (other.epoch, other.after)
  }
}
