internal import PushTransport
internal import PushWire

/// The tokens of a connection: the present one and the previous one.
struct ConnectionTokens {
  /// The token that new requests carry; nil with a certificate.
  var present: ProviderToken?
  /// Requests with a smaller tag carried the previous token.
  private var since: UInt64 = 0
  private var generationBefore: UInt64 = 0
  /// The service has accepted a request with the present token, and the source knows.
  var isAccepted = false
  var lookedAt = Instant.start

  mutating func opened() {
    since = 0
    isAccepted = false
  }

  /// From this tag on, requests carry a new token.
  mutating func renewed(_ token: ProviderToken, from tag: UInt64) {
    generationBefore = present?.generation ?? 0
    present = token
    since = tag
    isAccepted = false
  }

  /// The generation of the token that the request carried.
  func generation(of tag: UInt64) -> UInt64 { tag < since ? generationBefore : present?.generation ?? 0 }
}

extension RequestConversation {
  // MARK: The credential

  enum Authorization {
    case ready
    case later(Instant)
    case never(String)
  }

  /// Makes sure that there is a token to connect with, if one is needed.
  func authorize() -> Authorization {
    guard let source = tokenSource else { return .ready }
    let now = loop.now
    switch source.token(now: now, unixSeconds: Int64(loop.unixSeconds)) {
    case .token(let token):
      tokens.present = token
      tokens.lookedAt = now
      return .ready
    case .wait(let until): return .later(until)
    case .failed(let error): return .never("no provider token can be made: \(error)")
    }
  }

  /// Checks from time to time whether there is a newer token. The check costs a mutex.
  func renewAuthorization() {
    guard let source = tokenSource, let session, machine.isOpen else { return }
    let now = loop.now
    guard tokens.lookedAt + .seconds(1) <= now else { return }
    tokens.lookedAt = now
    switch source.token(now: now, unixSeconds: Int64(loop.unixSeconds)) {
    case .token(let token):
      guard token.generation != tokens.present?.generation else { return }
      tokens.renewed(token, from: machine.nextTag)
      session.setAuthorization(token.authorization)
    case .wait:
      // The service has refused the token of this connection.
      machine.goingAway()
    case .failed(let error): pauseApp("no provider token can be made: \(error)")
    }
  }

  // MARK: Answers of the peer

  /// Why a connection ended, for messages, and how much that says.
  func cause(of closure: LinkClosure) -> (String, ProgressWatchdog.Evidence) {
    if let failure = session?.failure { return (failure.description, .failure) }
    if let goAway = session?.goAway {
      let reason = ProviderErrorBody.reasonText(in: goAway.debugData.span)
      let text = "the service ended the connection with GOAWAY \(goAway.errorCode)" + (reason.map { ", \($0)" } ?? "")
      return (text, reason == nil ? .failure : .answer)
    }
    // It ended because of the refusal, or behind it.
    if closure.evidence == .ending, let lastRefusal { return (lastRefusal.description, .answer) }
    return (closure.cause, closure.evidence)
  }

  func takeEvents(of session: HTTP2ClientSession) {
    let now = loop.now
    while true {
      // Nearly all of them.
      if tokens.isAccepted || tokenSource == nil { Self.takeAccepted(of: session, &machine, now: now) }
      guard let event = session.nextEvent() else { return }
      switch event {
      case .response(let response): answered(response, now: now)
      case .ended(let end):
        let isRefused = end.isUnprocessed && end.errorCode == .refusedStream
        machine.ended(end.tag, isRefused ? .refused : end.isUnprocessed ? .unprocessed : .unknown, now: now)
      case .goAway: machine.goingAway()
      case .pong(let number): machine.pong(number)
      case .settings: break
      }
    }
  }

  private static func takeAccepted(of session: HTTP2ClientSession, _ machine: inout RequestMachine, now: Instant) {
    session.takeAccepted { tag in
      machine.answered(tag, .accepted, outcome: .accepted(.confirmed), retryAfter: nil, now: now)
    }
  }

  private func answered(_ response: HTTP2Response, now: Instant) {
    if response.status == 200 {
      if !tokens.isAccepted { accepted(response.tag) }
      machine.answered(response.tag, .accepted, outcome: .accepted(.confirmed), retryAfter: nil, now: now)
    } else {
      refused(response)
    }
  }

  private func accepted(_ tag: UInt64) {
    guard let source = tokenSource, let present = tokens.present else { return }
    guard tokens.generation(of: tag) == present.generation else { return }
    source.accepted(generation: present.generation)
    tokens.isAccepted = true
  }

  private func refused(_ response: HTTP2Response) {
    let body = unsafe ProviderErrorBody(parsing: response.body)
    var verdict = ProviderAnswer.verdict(status: response.status, reason: body.reason)
    switch verdict {
    case .gone:
      if let since = body.timestampMilliseconds, let position = machine.position(of: response.tag) {
        goneSince[position] = since
      }
    case .disputesToken: verdict = tokenRefused(.invalid, response)
    case .expiredToken: verdict = tokenRefused(.expired, response)
    case .keepsToken: _ = tokenRefused(.tooManyUpdates, response)
    default: break
    }
    let token = verdict == .delaysToken ? machine.position(of: response.tag).map { ring.record(at: $0).tokenHash } : nil
    let other = body.otherReason.map { range in
      unsafe shared.unknownReasons.text(status: response.status, UnsafeRawBufferPointer(rebasing: response.body[range]))
    }
    let refusal = ProviderRefusal(status: response.status, reason: body.reason, otherReason: other)
    machine.answered(
      response.tag, verdict, outcome: .rejected(.provider(refusal)), retryAfter: response.retryAfter, token: token,
      now: loop.now)
  }

  /// Reports the service's refusal to the token source. Returns what it means for the
  /// notification.
  private func tokenRefused(_ refusal: ProviderTokenMachine.TokenRefusal, _ response: HTTP2Response) -> ProviderVerdict
  {
    // Without a token, nothing can be renewed.
    guard let source = tokenSource else { return .pausesApp }
    let reaction = source.refused(
      refusal, generation: tokens.generation(of: response.tag), date: response.date, now: loop.now,
      unixSeconds: Int64(loop.unixSeconds))
    return reaction == .pause ? .pausesApp : .expiredToken
  }
}
