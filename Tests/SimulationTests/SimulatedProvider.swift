internal import PushEngine
internal import PushGateway
internal import PushTransport
internal import PushWire
internal import Support

/// The faults of the simulated HTTP/2 service, most of them per thousand requests.
struct ProviderFaults {
  /// Always refused with this status and reason.
  var refused: [TokenBytes: (status: UInt16, reason: ProviderReason)] = [:]
  /// Temporary refusals with 500 or 503, and with 429. Nothing is accepted.
  var unavailablePerMille = 0
  var tooManyPerMille = 0
  /// RST_STREAM. With REFUSED_STREAM nothing is accepted, with another code perhaps.
  var refusedStreamPerMille = 0
  var resetPerMille = 0
  /// Perhaps accepted, never answered.
  var silentPerMille = 0
  /// Perhaps accepted, and the connection is cut.
  var cutPerMille = 0
  /// A response that is not part of the protocol; perhaps accepted.
  var oddPerMille = 0
  /// 503 Shutdown or 400 IdleTimeout: not accepted, and a new connection is requested.
  var shutdownPerMille = 0
  /// GOAWAY after this many requests of a connection, with a last stream in the middle of those in
  /// flight.
  var goAwayAfter: Int?
  /// After this many requests of a connection, the service sends nothing any more.
  var deafAfter: Int?
  /// On how many connections at most.
  var deafConnections = 0
  var streamLimit: UInt32 = 100
  /// One stream at first, until a request was accepted.
  var startsAtOne = false
  /// The limit changes from time to time, also below the number of open streams.
  var limitChanges = false
  /// Of this many machines behind one address, one answers nothing but 503, or nothing at all.
  var sickOf: Int?
  var deafOf: Int?
  /// Tokens that never get an answer, and tokens that are always answered with 503.
  var unanswered: Set<TokenBytes> = []
  var alwaysPutOff: Set<TokenBytes> = []
  /// From this request on, everything is refused with 403.
  var forbiddenFrom: Int?
  /// Tokens whose requests always cut the connection, perhaps accepted.
  var cutting: Set<TokenBytes> = []
  /// From this request on, everything is answered with 503 for this long.
  var outage: (from: Int, duration: Duration)?
  /// Milliseconds between a request's arrival and its response.
  var processing: ClosedRange<Int> = 0...20
}

/// The HTTP/2 service of a simulation: real HTTP/2 sessions, a truth of what was accepted, and
/// faults by a seed. It outlasts simulated processes.
final class SimulatedProvider: SimulatedEndpoint, @unchecked Sendable {
  // Sync: used on the simulated loop only.
  fileprivate let faults: ProviderFaults
  fileprivate var random: SeededGenerator
  fileprivate(set) var accepted: [TokenBytes: Int] = [:]
  /// All requests that arrived, with their payloads.
  fileprivate(set) var requests: [(token: TokenBytes, identifier: String, payload: [UInt8])] = []
  /// Tokens that were refused temporarily.
  fileprivate(set) var putOff: Set<TokenBytes> = []
  /// Rules of the protocol that the client broke.
  fileprivate(set) var violations: [String] = []
  /// How often a request for each token has cut its connection.
  fileprivate var cutCounts: [TokenBytes: Int] = [:]
  fileprivate var deafCount = 0
  fileprivate var connectionCount = 0
  /// Which machine gets the first connection.
  private let firstMachine: Int
  fileprivate var outageEnd: Instant?

  init(faults: ProviderFaults, seed: UInt64) {
    self.faults = faults
    random = SeededGenerator(seed: seed)
    firstMachine = Int(seed % 12)
  }

  func refusesCertificate() -> Bool { false }
  func connect() -> any SimulatedPeer {
    connectionCount += 1
    return ProviderPeer(self)
  }

  /// A token that has cut its connection twice cannot be told from one that always does.
  func kills(_ token: TokenBytes) -> Bool { faults.cutting.contains(token) || cutCounts[token, default: 0] > 1 }

  /// Tokens that were sent with several identifiers. A resend keeps its identifier.
  var changedIdentifiers: [String] {
    var seen: [TokenBytes: String] = [:]
    return requests.compactMap { request in
      let before = seen.updateValue(request.identifier, forKey: request.token)
      return before == nil || before == request.identifier ? nil : "\(request.token) was sent under two identifiers"
    }
  }

  fileprivate func isOutOfOrder(now: Instant) -> Bool {
    guard let outage = faults.outage, requests.count > outage.from else { return false }
    let end = outageEnd ?? now + outage.duration
    outageEnd = end
    return now < end
  }

  /// Whether a new connection reaches the one of so many machines: each gets every so many-th.
  fileprivate func meets(_ count: Int?) -> Bool { count.map { (connectionCount + firstMachine) % $0 == 0 } ?? false }

  fileprivate func draws(_ perMille: Int) -> Bool {
    perMille > 0 && Int.random(in: 0..<1000, using: &random) < perMille
  }
}

/// One connection to the service.
private final class ProviderPeer: SimulatedPeer {
  private struct Waiting {
    var streamID: Int32
    var token: TokenBytes
    var identifier: [UInt8]
    var due: Instant
  }

  private let provider: SimulatedProvider
  private let session: HTTP2ServerSession?
  private var waiting: [Waiting] = []
  private var requestCount = 0
  private var limit: UInt32
  private var highestProcessed: Int32 = 0
  private var isDeaf = false
  private var isGoingAway = false
  private var hasEnded = false
  private let isSick: Bool

  init(_ provider: SimulatedProvider) {
    self.provider = provider
    limit = provider.faults.startsAtOne ? 1 : provider.faults.streamLimit
    isSick = provider.meets(provider.faults.sickOf)
    isDeaf = provider.meets(provider.faults.deafOf)
    var options = HTTP2ServerSession.Options()
    options.streamLimit = limit
    session = try? HTTP2ServerSession(options: options)
  }

  func opened(now: Instant) -> [PeerAction] { output() }

  func received(_ bytes: UnsafeRawBufferPointer, now: Instant) -> [PeerAction] {
    unsafe session?.receive(bytes)
    var actions: [PeerAction] = []
    while let event = session?.nextEvent() {
      switch event {
      case .request(let request): if let due = took(request, now: now) { actions.append(.wake(at: due)) }
      case .streamLimitExceeded(_, let open, let limit):
        provider.violations.append("\(open) streams where \(limit) were allowed")
      case .ended(let streamID, _): waiting.removeAll { $0.streamID == streamID }
      case .goAway: break
      }
    }
    if let failure = session?.failure { provider.violations.append("\(failure)") }
    return actions + output()
  }

  func woken(now: Instant) -> [PeerAction] {
    var actions: [PeerAction] = []
    for request in waiting where request.due <= now && !hasEnded {
      // Removed first, because its effects can remove others.
      guard let index = waiting.firstIndex(where: { $0.streamID == request.streamID }) else { continue }
      waiting.remove(at: index)
      highestProcessed = max(highestProcessed, request.streamID)
      actions += process(request, now: now)
    }
    return hasEnded ? actions : actions + output()
  }

  func peerClosed(now: Instant) -> [PeerAction] {
    // Requests that have arrived may still be accepted.
    for request in waiting where provider.faults.refused[request.token] == nil && Bool.random(using: &provider.random) {
      take(request.token)
    }
    waiting = []
    return []
  }

  func ended() {
    hasEnded = true
  }

  private func took(_ request: HTTP2Request, now: Instant) -> Instant? {
    guard let path = request.text(of: ":path"), path.hasPrefix("/3/device/"),
      let token = try? TokenBytes(parsing: String(path.dropFirst(10))),
      let identifier = unsafe request.value(of: "apns-id").map({ unsafe Array($0) })
    else {
      provider.violations.append("a request without token or identifier")
      return nil
    }
    let payload = unsafe Array(request.body)
    provider.requests.append((token, String(decoding: identifier, as: UTF8.self), payload))
    requestCount += 1
    if let after = provider.faults.deafAfter, requestCount > after, !isDeaf,
      provider.deafCount < provider.faults.deafConnections
    {
      isDeaf = true
      provider.deafCount += 1
    }
    let due = now + .milliseconds(Int.random(in: provider.faults.processing, using: &provider.random))
    waiting.append(Waiting(streamID: request.streamID, token: token, identifier: identifier, due: due))
    return due
  }

  private func process(_ request: Waiting, now: Instant) -> [PeerAction] {
    let faults = provider.faults
    if isDeaf {
      if faults.refused[request.token] == nil, Bool.random(using: &provider.random) { take(request.token) }
      return []
    }
    defer { changeLimit() }
    if let from = faults.forbiddenFrom, provider.requests.count > from {
      return respond(request, 403, .invalidProviderToken)
    }
    if faults.cutting.contains(request.token) { return cut(with: request) }
    if faults.unanswered.contains(request.token) { return [] }
    if isSick || faults.alwaysPutOff.contains(request.token) { return respond(request, 503, .serviceUnavailable) }
    // Not a verdict on the notification, so it must not be rejected for this.
    if provider.isOutOfOrder(now: now) { return respond(request, 503, .serviceUnavailable) }
    if provider.draws(faults.refusedStreamPerMille) {
      provider.putOff.insert(request.token)
      session?.reset(request.streamID, .refusedStream)
      return []
    }
    if provider.draws(faults.shutdownPerMille) {
      return Bool.random(using: &provider.random)
        ? respond(request, 503, .shutdown) : respond(request, 400, .idleTimeout)
    }
    if provider.draws(faults.unavailablePerMille) {
      provider.putOff.insert(request.token)
      return Bool.random(using: &provider.random)
        ? respond(request, 500, .internalServerError) : respond(request, 503, .serviceUnavailable)
    }
    if provider.draws(faults.tooManyPerMille) {
      provider.putOff.insert(request.token)
      return respond(request, 429, .tooManyRequests)
    }
    if let refusal = faults.refused[request.token] { return respond(request, refusal.status, refusal.reason) }
    if provider.draws(faults.resetPerMille) {
      perhapsTake(request.token)
      session?.reset(request.streamID, .internalError)
      return []
    }
    if provider.draws(faults.silentPerMille) {
      perhapsTake(request.token)
      return []
    }
    if provider.draws(faults.cutPerMille) { return cut(with: request) }
    if provider.draws(faults.oddPerMille) {
      perhapsTake(request.token)
      return respond(request, 302, nil)
    }
    take(request.token)
    session?.respond(request.streamID, status: 200, identifier: request.identifier, body: [])
    if let after = faults.goAwayAfter, requestCount >= after, !isGoingAway { goAway() }
    return []
  }

  private func cut(with request: Waiting) -> [PeerAction] {
    perhapsTake(request.token)
    provider.cutCounts[request.token, default: 0] += 1
    hasEnded = true
    return [Bool.random(using: &provider.random) ? .reset : .close]
  }

  private func goAway() {
    isGoingAway = true
    // No request above it has been or will be accepted.
    let open = waiting.map(\.streamID).filter { $0 > highestProcessed }
    let last =
      Bool.random(using: &provider.random)
      ? highestProcessed : open.randomElement(using: &provider.random) ?? highestProcessed
    waiting.removeAll { $0.streamID > last }
    session?.sendGoAway(lastStreamID: last, code: .noError, debugData: Array(#"{"reason":"Shutdown"}"#.utf8))
  }

  private func perhapsTake(_ token: TokenBytes) {
    if Bool.random(using: &provider.random) { take(token) }
  }

  private func take(_ token: TokenBytes) {
    provider.accepted[token, default: 0] += 1
  }

  private func respond(_ request: Waiting, _ status: UInt16, _ reason: ProviderReason?) -> [PeerAction] {
    let timestamp = status == 410 ? #","timestamp":1700000000123"# : ""
    let body = reason.map { #"{"reason":"\#($0.rawValue)"\#(timestamp)}"# } ?? ""
    session?.respond(request.streamID, status: status, identifier: request.identifier, body: Array(body.utf8))
    return []
  }

  private func changeLimit() {
    if provider.faults.startsAtOne, limit == 1, requestCount == 1 {
      limit = provider.faults.streamLimit
      session?.setStreamLimit(limit)
    } else if provider.faults.limitChanges, provider.draws(50) {
      limit = UInt32.random(in: 1...provider.faults.streamLimit, using: &provider.random)
      session?.setStreamLimit(limit)
    }
  }

  private func output() -> [PeerAction] {
    guard let session, !isDeaf, !hasEnded else { return [] }
    var bytes: [UInt8] = []
    while true {
      let piece = unsafe session.output()
      guard piece.count > 0 else { break }
      unsafe bytes += Array(piece)
    }
    return bytes.isEmpty ? [] : [.send(bytes)]
  }
}
