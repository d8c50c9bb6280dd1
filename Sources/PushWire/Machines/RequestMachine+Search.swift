// The search for a request on which the service cuts the connection.
//
// A connection is cut with n requests in flight, and one of them may be the cause. These suspects
// are resent with only a sixteenth of them in flight at once, and nothing else. Every answer clears
// its own notification. If the connection is cut again, what was in flight becomes the next stage,
// of which again a sixteenth is in flight. With windows of up to 4096 requests, a suspect is alone
// in the third stage.
//
// A suspect that is alone on a connection that is cut is isolated. It waits until another request
// has been answered on a later connection, and is sent alone once more. If that connection is cut
// too, the notification is rejected as soon as another request has been answered. If a connection
// ends before that, an outage had begun. The second cut then proves nothing, and the suspect waits
// again. So with a thousand in flight, no notification is sent more than five times without an
// outage.

/// The suspects and the progress of the search. Part of ``RequestMachine``.
struct RequestSearch {
  struct Stage {
    /// Suspects in descending order: the last one is next.
    var suspects: [RequestEntry]
    /// How many are in flight at once.
    let width: Int
  }

  /// The innermost stage is the last. The others continue when it is done.
  var stages: [Stage] = []
  /// Suspects that were alone on a connection that was cut. Those with
  /// ``RequestEntry/awaitsControl`` come first.
  var isolated: [RequestEntry] = []
  /// Connections in a row that were cut before any final answer.
  var fruitlessCount = 0

  var count: Int { stages.reduce(isolated.count) { $0 + $1.suspects.count } }

  private static let partCount = 16

  mutating func add(_ suspects: [RequestEntry]) {
    let width = (suspects.count + Self.partCount - 1) / Self.partCount
    stages.append(Stage(suspects: suspects.sorted { $0.position > $1.position }, width: width))
  }

  mutating func dropEmptyStages() {
    while let stage = stages.last, stage.suspects.isEmpty { stages.removeLast() }
  }

  /// Removes a notification that has its turn. Returns false if it is not one of the next.
  mutating func takeTurn(_ position: UInt64) -> Bool {
    if let last = stages.indices.last, stages[last].suspects.last?.position == position {
      stages[last].suspects.removeLast()
      return true
    }
    guard isolated.first?.position == position else { return false }
    isolated.removeFirst()
    return true
  }
}

extension RequestMachine {
  /// How many connections may be cut before any answer without a pause: more than a search with
  /// stages of one token needs. After that the service is in trouble, and connections back off.
  static let fruitlessSearchLimit = 6

  /// The peer or the network has closed the connection with requests in flight.
  mutating func lostInCut() {
    var lost: [RequestEntry] = []
    while let oldest = inFlight.oldest, var entry = inFlight.remove(oldest.tag) {
      markInDoubt(&entry)
      lost.append(entry)
    }
    guard let first = lost.first else { return }
    if search == nil { search = RequestSearch() }
    if lost.count == 1 { isolate(first) } else { search?.add(lost) }
  }

  private mutating func isolate(_ entry: RequestEntry) {
    var entry = entry
    entry.awaitsControl = entry.soloCuts > 0 && hasWorkedSince(entry)
    if entry.soloCuts < .max { entry.soloCuts += 1 }
    entry.cutMark = inFlight.nextSerial
    if entry.awaitsControl {
      search?.isolated.insert(entry, at: 0)
    } else if entry.soloCuts < max(2, attempts) {
      search?.isolated.append(entry)
    } else {
      // If there is nothing to compare it with, the copies are bounded.
      settle(entry, as: .unknown)
    }
  }

  /// Whether the service has worked since it cut the connection that carried only this.
  private func hasWorkedSince(_ suspect: RequestEntry) -> Bool {
    lastGoodSerial >= suspect.cutMark || connection.isControlled
  }

  /// Rejects suspects if the service worked before and after the connection that carried only them.
  private mutating func rejectSuspects() {
    while let suspect = search?.isolated.first, suspect.awaitsControl, hasWorkedSince(suspect) {
      search?.isolated.removeFirst()
      settle(suspect, as: .rejected(.closedWithoutReason))
    }
  }

  /// A connection has ended, or could not be opened, before any answer. The same outage may have
  /// caused the last cut.
  mutating func controlFailed() {
    rejectSuspects()
    guard var isolated = search?.isolated, isolated.first?.awaitsControl == true else { return }
    for index in isolated.indices {
      isolated[index].awaitsControl = false
      isolated[index].cutMark = inFlight.nextSerial
    }
    // The copies are bounded here too.
    let limit = max(3, attempts)
    for entry in isolated where entry.soloCuts >= limit { settle(entry, as: .unknown) }
    isolated.removeAll { $0.soloCuts >= limit }
    search?.isolated = isolated
  }

  /// What the search sends now. Nil: nothing, and `room` is how many other requests may be sent.
  mutating func stepInSearch(_ input: Input, room: inout Int) -> Step? {
    guard search != nil else { return nil }
    rejectSuspects()
    if inFlight.count == 0 { search?.dropEmptyStages() }
    if let stage = search?.stages.last {
      let free = min(room, stage.width - inFlight.count)
      room = 0
      return free > 0 ? stage.suspects.last.map(Step.again) : nil
    }
    guard inFlight.count == 0, room > 0 else {
      room = 0
      return nil
    }
    guard let suspect = search?.isolated.first else {
      search = nil
      return nil
    }
    if !suspect.awaitsControl, hasWorkedSince(suspect) { return .again(suspect) }
    // Another notification shows whether the service works.
    if retries.next == nil, !isTakingNew(input) { retries.hastenFirst { !$0.isPaced } }
    if retries.next != nil || isTakingNew(input) {
      room = 1
      return nil
    }
    room = 0
    // The connections of all of them were cut, and there is nothing to compare them with. They are
    // sent one after another.
    if !suspect.awaitsControl, let count = search?.isolated.count, count > 1 { return .again(suspect) }
    return askForControl(now: input.now)
  }

  /// There is no other notification, so a PING is the control.
  private mutating func askForControl(now: Instant) -> Step? {
    if let ping = connection.ping {
      connection.controlPing = ping.number
      return nil
    }
    pingCount += 1
    connection.ping = (pingCount, now)
    connection.controlPing = pingCount
    return .ping(pingCount)
  }

  /// Everything is cancelled, so the search ends.
  mutating func endSearch() {
    guard let search else { return }
    self.search = nil
    for stage in search.stages { for entry in stage.suspects { retries.append(entry) } }
    for entry in search.isolated { retries.append(entry) }
  }
}
