internal import PushGateway
internal import PushSend
internal import PushStore
internal import PushWire
internal import Support

@testable internal import Carillon
@testable internal import PushService

/// What the store says, beside what the gateway got.
extension ClusterSimulation {
  private var arrivedCount: Int { provider?.requests.count ?? frames.frames.count }

  /// What arrived since the last look.
  func look() {
    let count = arrivedCount
    guard count > checkedCount else { return }
    let new =
      provider.map { $0.requests[checkedCount...].map(\.token) }
      ?? frames.frames[checkedCount...].compactMap(\.token)
    checkedCount = count
    let segments = storeDisk.change { $0.ledger.grants }
    for token in new {
      guard let key = keys[token], let segment = segments.last(where: { $0.firstKey <= key }) else {
        problems.append("somebody got it who is in no segment")
        continue
      }
      let line = keys.values.count { $0 >= segment.firstKey && $0 <= key }
      if line > segment.granted { problems.append("line \(line) was sent, and \(segment.granted) were granted") }
    }
    // What a killed process has read, the next one sends without reading it again.
    guard let perSecond = plan.perSecond, world.since(lastBegin) > .seconds(10) else {
      arrivals = []
      return
    }
    arrivals += [Instant](repeating: world, count: new.count)
    arrivals.removeAll { world.since($0) > .seconds(1) }
    // Clocks of different speeds, and what a connection had when it was stopped or lost.
    var most = Double(perSecond) * 1.05 + Double(40 * nodes.count)
    guard Double(arrivals.count) > most else { return }
    // What was read in a silence leaves at its end.
    most += Double(perSecond) * (zip(arrivals, arrivals.dropFirst()).map { $1.since($0).inSeconds }.max() ?? 0)
    if Double(arrivals.count) > most { problems.append("\(arrivals.count) arrived in a second, at \(perSecond)/s") }
  }

  func check() -> [String] {
    var problems = storeDisk.contents.problems
    let contents = storeDisk.contents
    let arrivals = provider?.accepted ?? frames.accepted(topic: Scenario.topic)
    var sum = CampaignAccount()
    for part in contents.parts[id] ?? [] {
      guard let account = part.account.flatMap(AccountJSON.account(reading:)) else {
        problems.append("part \(part.number) has no account")
        continue
      }
      sum = sum + account
    }
    possibleDuplicateCount = sum.possibleDuplicates
    let isCancelled = contents.campaigns[id]?.status == .cancelled
    let wanted = Set(tokens).subtracting(suppressed).subtracting(bad)
    let wrong = arrivals.keys.count { !wanted.contains($0) }
    if wrong > 0 { problems.append("\(wrong) must get nothing, and have got it") }
    let missing = wanted.count { arrivals[$0] == nil }
    // Those who may have got it do not get it again, unless the app wants that.
    let unsureCount = sum.unknown + sum.held
    if missing > (plan.onUnknown == .resend ? 0 : unsureCount), !isCancelled {
      problems.append("\(missing) have got nothing")
    }
    if sum.submitted != tokens.count, !(isCancelled && sum.submitted == 0) {
      problems.append("\(sum.submitted) of \(tokens.count) are in the account: \(contents.ledger.accounts)")
    }
    if sum.inFlight != 0 { problems.append("\(sum.inFlight) have no outcome") }
    if unsureCount == 0 ? sum.accepted != arrivals.count : sum.accepted > arrivals.count {
      problems.append("\(arrivals.count) have got it: \(sum)")
    }
    if !isCancelled, plan.onUnknown == .resend, sum.unknown > suppressed.count {
      problems.append("\(sum.unknown) are unknown")
    }
    let twice = arrivals.values.count { $0 > 1 }
    if twice > sum.possibleDuplicates {
      problems.append("\(twice) have got it twice, counted \(sum.possibleDuplicates)")
    }
    problems += copies(arrivals)
    let state = contents.campaigns[id]?.state ?? ""
    if !(isCancelled ? plan.isCancelled : state == "finished") { problems.append("the campaign is \(state)") }
    let outcomes = ListedOutcomes(contents.outcomeGroups, of: Set(tokens))
    return problems + outcomes.problems(sum) + listed(sum)
  }

  /// Each segment has counted the copies of its own lines: in the sum, one that counted too many
  /// hides another.
  private func copies(_ arrivals: [TokenBytes: Int]) -> [String] {
    let ledger = storeDisk.contents.ledger
    var found = [(twice: Int, copies: Int)](repeating: (0, 0), count: ledger.grants.count)
    for (token, count) in arrivals where count > 1 {
      guard let key = keys[token], let place = ledger.grants.lastIndex(where: { $0.firstKey <= key }) else { continue }
      found[place].twice += 1
      found[place].copies += count - 1
    }
    return zip(found, zip(ledger.grants, ledger.segmentAccounts)).compactMap { found, segment in
      let account = segment.1.flatMap(AccountJSON.account(reading:)) ?? CampaignAccount()
      guard found.twice > account.possibleDuplicates || found.copies > account.possibleCopies else { return nil }
      return "segment \(segment.0.firstKey): \(found.twice) have got it twice, \(found.copies) copies: \(account)"
    }
  }

  /// Whoever was refused stands in the lists once.
  private func listed(_ sum: CampaignAccount) -> [String] {
    var listed: [Substring: Int] = [:]
    let rows = storeDisk.contents.ledger.listed(id)
    for row in rows.split(separator: "\n") {
      let fields = row.split(separator: ",", omittingEmptySubsequences: false)
      if fields.count > 2, fields[2] == "rejected" { listed[fields[1], default: 0] += 1 }
    }
    let twice = listed.values.count { $0 > 1 }
    return twice > 0 || listed.count != sum.rejected
      ? ["\(listed.count) are listed as refused, \(twice) of them twice, and \(sum.rejected) are"] : []
  }
}
