internal import PushTransport
package import PushWire

/// The service's side of one HTTP/2 connection, without the connection: bytes and times in; bytes,
/// a wake-up time and an end out.
///
/// It applies the rules of HTTP2ProviderAPI. ``RequestFaultInjector`` and ``ConnectionFaults``
/// decide on requests that keep them.
///
/// After each event, in this order:
/// - take ``output()`` until it is empty, unless ``end`` is ``End/reset``;
/// - carry out ``end``;
/// - call ``woken(now:)`` at ``nextWake``.
///
/// Events must come one at a time, on one thread, in the order of their times.
@safe
package final class ServiceConnection {
  package enum Purpose: Sendable {
    case notifications
    /// Channel management, on a port of its own (HTTP2ProviderAPI, section 6).
    case channels
  }

  /// How the connection ends. Afterwards, events are ignored.
  package enum End: Hashable, Sendable {
    /// Close when the output has been written.
    case close
    /// Close at once with a RST. The output is lost.
    case reset
  }

  /// The service's number of this connection, from 1.
  package let number: Int
  package private(set) var end: End?

  let service: SimulatedService
  let client: ServiceClient
  let session: HTTP2ServerSession
  private let purpose: Purpose
  let isStrict: Bool

  // Time.
  private(set) var now: Instant
  private(set) var unixSeconds: Int64 = 0
  private(set) var dateFields = ResponseFields([])
  private var lastRead: Instant
  private var idleCheck: Instant
  /// Set with a GOAWAY. The connection is closed then, finished or not.
  private var closeDeadline: Instant?
  private static let closeTimeLimit = Duration.seconds(10)

  // Requests.
  var tokens: ProviderTokenJudge
  var apps: [String: ServiceApp] = [:]
  var payloads = PayloadRepetition()
  /// Holds the decoded token of the current request.
  let tokenBytes = UnsafeMutableRawBufferPointer.allocate(byteCount: TokenBytes.byteCountLimit, alignment: 8)
  var tokenByteCount = 0
  var token: UnsafeRawBufferPointer { unsafe UnsafeRawBufferPointer(rebasing: tokenBytes[..<tokenByteCount]) }
  /// The current request is a broadcast. The fault rules read its channel identifier in place of a
  /// token.
  var isBroadcast = false
  /// The route of the last request, and the values that it was derived from.
  var lastRoute: ServiceRoute?
  var routeTopic: [UInt8]?
  var routeType: [UInt8]?
  var routeToken: ServiceKeys.Token?
  var recorder: RequestRecorder?

  /// All complete requests that have arrived, and how many of them have been counted in a truth.
  private var requests = RequestCounter()
  private var countedRequests = 0

  // Faults and answers.
  /// The app whose fault rules hold for the connection: the certificate's, or that of the first
  /// valid request.
  var boundApp: ServiceApp?
  var faults: ConnectionFaults
  var normalLimit: Int
  var announcedLimit: Int
  var drainAnswersLeft: Int?
  /// Requests on higher streams are not processed.
  private(set) var lastStreamID: Int32 = .max
  var highestStreamID: Int32 = 0
  var delayed = DelayedAnswers()
  /// Responses to accepted notifications that are still in the session.
  var answersInside = 0
  /// Bytes that are not HTTP/2 and still have to be sent. Alone: nothing is sent before them.
  private var garbage: (isDue: Bool, isAlone: Bool) = (false, false)
  private var identifiers = APNSIdentifierSequence(
    IdentifierSeed(high: .random(in: 0 ... .max), low: .random(in: 0 ... .max)))
  private var identifierCount: UInt64 = 0

  init(
    to service: SimulatedService, client: ServiceClient, purpose: Purpose, now: Instant, memory: HTTP2ServerMemory
  ) throws(HTTP2Failure) {
    (self.service, self.client, self.purpose, self.now) = (service, client, purpose, now)
    isStrict = service.rules.service.isStrict
    lastRead = now
    idleCheck = now + service.rules.service.idleLimit
    number = service.ledger.open()
    tokens = ProviderTokenJudge(service.keys, expireAfter: service.rules.service.expireTokenAfter)
    let app = client.topics?.first.map { ServiceApp($0, service: service, now: now) }
    let rules = app?.faults ?? service.rules.common.http2
    faults = ConnectionFaults(rules, connection: app?.ordinal ?? number, seen: -1)
    boundApp = app
    normalLimit = rules.streamLimit
    announcedLimit = purpose == .channels ? rules.streamLimit : rules.firstLimit(hasCertificate: app != nil)
    var options = HTTP2ServerSession.Options()
    options.streamLimit = UInt32(announcedLimit)
    session = try HTTP2ServerSession(options: options, memory: memory)
    if let file = service.recordFile { recorder = RequestRecorder(file: file, connection: number) }
    if let app { apps[app.name] = app }
    tick(now)
    if isStrict, client.applicationProtocol == nil { end = .close }
    faults.begin()
    if purpose == .notifications { followFaults() }
  }

  deinit { unsafe tokenBytes.deallocate() }

  // MARK: Events

  /// The client's next bytes, cut anywhere, beginning with the HTTP/2 preface.
  ///
  /// After ``End/close`` requests are still counted, so that a shell can read until the client
  /// closes and no request is missing from the counts.
  package func received(_ bytes: UnsafeRawBufferPointer, now: Instant) {
    if end == nil { unsafe session.receive(bytes) }
    // After a failure, frame boundaries are unknown.
    if session.failure == nil { unsafe requests.take(bytes) }
    guard end == nil else { return countLost() }
    tick(now)
    lastRead = now
    takeEvents()
    countLost()
    // HTTP/2 does not bound a client that never acknowledges SETTINGS. This limit bounds the
    // memory.
    if session.openStreamCount > 2 * max(normalLimit, announcedLimit, 1000) { violated() }
    report()
  }

  /// The time of ``nextWake`` has come. Calls that are early or superfluous do no harm.
  package func woken(now: Instant) {
    guard end == nil else { return }
    tick(now)
    while let answer = delayed.takeFirst(upTo: now) {
      unsafe answer.identifier.withUnsafeBytes { identifier in
        unsafe answer.body.withUnsafeBytes { body in
          unsafe session.respond(
            answer.streamID, status: answer.status, identifier: identifier, fields: dateFields, body: body)
        }
      }
      if answer.isTaken { answersInside += 1 }
    }
    if now >= idleCheck {
      let limit = service.rules.service.idleLimit
      if now.since(lastRead) >= limit, lastStreamID == .max {
        goAway(reason: ProviderReason.idleTimeout.rawValue)
        end = .close
      }
      idleCheck = max(lastRead, now) + limit
    }
    if let closeDeadline, now >= closeDeadline { end = .close }
    report()
  }

  /// The client has finished sending (close_notify or FIN). It can still read.
  package func peerClosed(now: Instant) {
    guard end == nil else { return }
    tick(now)
    end = .close
  }

  /// The service stops: GOAWAY with Shutdown. Earlier requests are answered.
  package func shutDown(now: Instant) {
    guard end == nil else { return }
    tick(now)
    if lastStreamID == .max { goAway(reason: ProviderReason.shutdown.rawValue) }
    report()
  }

  /// The connection is gone. Its counts become final and its lines go to the record. No event may
  /// follow.
  package func ended() {
    if end == nil { end = .close }
    for answer in delayed.all where answer.isTaken { answer.app.truth.unanswered += 1 }
    delayed.removeAll()
    recorder?.flush()
    report()
  }

  // MARK: Output and timer

  /// The next bytes to send, valid until the next call. Empty when there are none.
  package func output() -> UnsafeRawBufferPointer {
    let nothing = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
    guard end != .reset else { return unsafe nothing }
    answersInside = 0
    let bytes = unsafe garbage.isAlone ? nothing : session.output()
    if bytes.count == 0, garbage.isDue {
      garbage.isDue = false
      return unsafe UnsafeRawBufferPointer(start: Self.garbageText.utf8Start, count: Self.garbageText.utf8CodeUnitCount)
    }
    if bytes.count == 0, session.isFinished || session.failure != nil { end = .close }
    return unsafe bytes
  }

  /// When ``woken(now:)`` is to be called next.
  package var nextWake: Instant? {
    guard end == nil else { return nil }
    var wake = idleCheck
    if let due = delayed.nextDue { wake = min(wake, due) }
    if let closeDeadline { wake = min(wake, closeDeadline) }
    return wake
  }

  // MARK: Steps

  /// Bytes such as a failing proxy between client and service sends.
  private static let garbageText: StaticString =
    "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

  /// Ends the connection with bytes that are not HTTP/2.
  func sendGarbage() {
    garbage = (isDue: true, isAlone: faults.seen == 0)
    end = .close
  }

  /// Counts the requests that the HTTP/2 session did not deliver: those after a GOAWAY, those that
  /// broke its rules, and those after the end.
  private func countLost() {
    let lost = requests.complete - countedRequests
    guard lost > 0, purpose == .notifications else { return }
    countedRequests += lost
    let app = lastRoute?.app ?? boundApp ?? app(named: Topic.anonymous)
    if lastStreamID == .max { app.truth.dropped += lost } else { app.truth.unprocessed += lost }
    report()
  }

  private func tick(_ now: Instant) {
    self.now = now
    let milliseconds = service.unixMilliseconds(now)
    let seconds = milliseconds / 1000
    guard seconds != unixSeconds else { return }
    unixSeconds = seconds
    dateFields = ResponseFields([HTTP2Field("date", HTTPDate.text(seconds))])
  }

  private func takeEvents() {
    while let event = session.nextEvent() {
      switch event {
      case .request(let request): handle(ServiceRequest(request))
      case .streamLimitExceeded(let streamID, _, _): if streamID <= lastStreamID { violated() }
      case .ended(let streamID, _):
        if let answer = delayed.cancel(streamID), answer.isTaken { answer.app.truth.unanswered += 1 }
      case .goAway: break
      }
    }
    if session.failure != nil { end = end ?? .close }
  }

  private func handle(_ request: ServiceRequest) {
    countedRequests += 1
    if end != nil {
      // After the cut, in the same read.
      app(of: request).truth.dropped += 1
      return
    }
    guard request.streamID <= lastStreamID else {
      app(of: request).truth.unprocessed += 1
      return
    }
    highestStreamID = max(highestStreamID, request.streamID)
    (tokenByteCount, isBroadcast) = (0, false)
    switch purpose {
    case .notifications: notificationRequest(request)
    case .channels: channelRequest(request)
    }
  }

  private func violated() {
    guard lastStreamID == .max else { return }
    goAway(code: .refusedStream, debugData: Array("Maximum active streams violated for this endpoint".utf8))
  }

  func goAway(reason: String?, code: HTTP2ErrorCode = .noError) {
    goAway(code: code, debugData: reason.map { ServiceRefusal(status: 503, reason: $0).body() } ?? [])
  }

  private func goAway(code: HTTP2ErrorCode, debugData: [UInt8]) {
    lastStreamID = highestStreamID
    session.sendGoAway(lastStreamID: highestStreamID, code: code, debugData: debugData)
    closeDeadline = now + Self.closeTimeLimit
  }

  func cut(isReset: Bool) {
    end = isReset ? .reset : .close
    if isReset, answersInside > 0 { (boundApp ?? apps.values.first)?.truth.unanswered += answersInside }
  }

  private func report() {
    for app in apps.values { app.report(to: service.ledger) }
  }

  func newIdentifier() -> APNSIdentifier {
    identifierCount += 1
    return identifiers[identifierCount]
  }
}
