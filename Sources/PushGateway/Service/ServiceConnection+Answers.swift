internal import PushTransport
internal import PushWire

// The verdicts on requests, and the responses.
extension ServiceConnection {
  /// Applies the fault rules to a request that keeps the rules.
  func decide(_ request: ServiceRequest, _ app: ServiceApp, identifier: APNSIdentifier?) {
    func leaveUnanswered(isTaken: Bool) {
      if isTaken { take(request, app, identifier: identifier, isAnswered: false) } else { app.truth.dropped += 1 }
    }
    bind(app)
    if let refusal = app.outage(now: now) { return refuse(request, app, refusal) }
    faults.count()
    if let cut = faults.cutDue() {
      leaveUnanswered(isTaken: cut.isTaken)
      return self.cut(isReset: cut.isReset)
    }
    if let left = drainAnswersLeft {
      refuse(request, app, ServiceRefusal(.shutdown))
      drainAnswersLeft = left - 1
      if left <= 1 { goAway(reason: ProviderReason.shutdown.rawValue) }
    } else {
      switch unsafe app.injector.verdict(on: isBroadcast ? request.channel ?? token : token) {
      case .take:
        let made = identifier == nil ? newIdentifier() : nil
        take(request, app, identifier: identifier, made: made, isAnswered: true)
        answer(request, app, status: 200, body: [], isTaken: true, made: made)
      case .refuse(let number):
        let rule = app.injector.refusal(number)
        let timestamp = rule.refusal.status == 410 ? rule.timestamp ?? service.startedAt : nil
        refuse(request, app, rule.refusal, timestamp: timestamp)
      case .noAnswer(let isTaken): leaveUnanswered(isTaken: isTaken)
      case .reset(let code, let isTaken):
        let code = HTTP2ErrorCode(rawValue: code)
        if !isTaken, code == .refusedStream { app.truth.unprocessed += 1 } else { leaveUnanswered(isTaken: isTaken) }
        session.reset(request.streamID, code)
      case .cut(let poison):
        leaveUnanswered(isTaken: poison.isTaken)
        self.cut(isReset: poison.isReset)
      }
    }
    followFaults()
  }

  /// The app of the first valid request decides the connection's fault rules, unless the
  /// certificate has named an app.
  private func bind(_ app: ServiceApp) {
    guard boundApp == nil else { return }
    boundApp = app
    normalLimit = app.faults.streamLimit
    faults = ConnectionFaults(app.faults, connection: app.ordinal, seen: faults.seen)
  }

  /// Carries out the faults that are due after the requests so far.
  func followFaults() {
    while end == nil, lastStreamID == .max, let event = faults.next() {
      switch event {
      case .cut(let cut): self.cut(isReset: cut.isReset)
      case .garbage: sendGarbage()
      case .goAway(let rule): goAway(reason: rule.reason, code: HTTP2ErrorCode(rawValue: rule.code))
      case .drain(let drain):
        drainAnswersLeft = drain.answers
        if drain.answers == 0 { goAway(reason: ProviderReason.shutdown.rawValue) }
      case .limit(let limit):
        normalLimit = limit
        announce(limit)
      }
    }
  }

  func announce(_ limit: Int) {
    guard limit != announcedLimit else { return }
    announcedLimit = limit
    session.setStreamLimit(UInt32(limit))
  }

  // MARK: Steps

  /// - Parameter made: The identifier that the service responds with where the client chose none;
  ///   otherwise nil.
  func take(
    _ request: ServiceRequest, _ app: ServiceApp, identifier: APNSIdentifier?, made: APNSIdentifier? = nil,
    isAnswered: Bool
  ) {
    let made = made ?? (identifier == nil ? newIdentifier() : nil)
    if isBroadcast { app.truth.broadcasts += 1 } else { app.truth.accepted += 1 }
    if !isAnswered { app.truth.unanswered += 1 }
    if let identifier { app.identifiers.append(DuplicateFilter.hash(identifier.high, identifier.low)) }
    unsafe recorder?.append(
      request, at: now, app: app.name, token: token, made: made, refusal: nil, isAnswered: isAnswered)
    unsafe service.memory?.append(
      request, app: app.name, connection: number, token: token, identifier: identifier, refusal: nil,
      isAnswered: isAnswered)
    announce(normalLimit)
  }

  func refuse(_ request: ServiceRequest, _ app: ServiceApp, _ refusal: ServiceRefusal, timestamp: Int64? = nil) {
    let identifier = unsafe request.identifier.flatMap { unsafe APNSIdentifier(parsing: $0) }
    let made = identifier == nil ? newIdentifier() : nil
    app.truth.refused[refusal, default: 0] += 1
    unsafe recorder?.append(
      request, at: now, app: app.name, token: token, made: made, refusal: refusal, isAnswered: true)
    unsafe service.memory?.append(
      request, app: app.name, connection: number, token: token, identifier: identifier, refusal: refusal,
      isAnswered: true)
    answer(request, app, status: refusal.status, body: refusal.body(timestamp: timestamp), isTaken: false, made: made)
    if refusal.status < 500, let limit = app.faults.errorStreamLimit { announce(limit) }
  }

  /// Responds with the request's `apns-id`, or with `made` where the request has no valid one.
  private func answer(
    _ request: ServiceRequest, _ app: ServiceApp, status: UInt16, body: [UInt8], isTaken: Bool, made: APNSIdentifier?
  ) {
    if made == nil, let identifier = unsafe request.identifier {
      return unsafe answer(request.streamID, app, status: status, identifier: identifier, body: body, isTaken: isTaken)
    }
    unsafe withUnsafeTemporaryAllocation(byteCount: APNSIdentifier.textByteCount, alignment: 1) { text in
      unsafe (made ?? newIdentifier()).write(into: text)
      unsafe answer(
        request.streamID, app, status: status, identifier: UnsafeRawBufferPointer(text), body: body, isTaken: isTaken)
    }
  }

  private func answer(
    _ streamID: Int32, _ app: ServiceApp, status: UInt16, identifier: UnsafeRawBufferPointer, body: [UInt8],
    isTaken: Bool
  ) {
    if app.delays != nil, let delay = app.delays?.next(), delay > .zero {
      unsafe delayed.insert(
        DelayedAnswer(
          due: (now + delay).nextMillisecond, streamID: streamID, status: status, identifier: Array(identifier),
          body: body, isTaken: isTaken, app: app))
      return
    }
    if isTaken { answersInside += 1 }
    unsafe body.withUnsafeBytes {
      unsafe session.respond(streamID, status: status, identifier: identifier, fields: dateFields, body: $0)
    }
  }
}

extension Instant {
  /// Rounds up to a millisecond. Responses with random delays then leave in groups that share a
  /// timer and a TLS record.
  fileprivate var nextMillisecond: Instant {
    let rest = nanoseconds % 1_000_000
    return rest == 0 ? self : self + .nanoseconds(Int64(1_000_000 - rest))
  }
}
