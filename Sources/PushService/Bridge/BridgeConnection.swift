package import Carillon
package import Logging
package import NIOCore
package import PushTransport
package import PushWire

/// The bridge's side of one client's connection, without its socket: bytes, messages of its app and
/// times in; what the shell must do out.
package struct BridgeConnection: ~Copyable {
  /// For tests of the simulation.
  package enum PlantedMistake: Hashable, Sendable {
    /// What was forwarded is not recognised.
    case forgets
    /// What came long before a break is remembered, and what was recognised is again.
    case remembersAllAfterBreaks
    /// A response that was written counts as read.
    case trustsResponses
  }

  package struct Settings: Hashable, Sendable {
    package var session = BridgeSession.Settings()
    package var memory = ForwardedMemory.Limits()
    /// Connections of one app at a time.
    package var limitPerApp = 1024
    package var plantedMistake: PlantedMistake?

    package init() {}
  }

  /// What the shell does now.
  package struct Output {
    /// In this order: writes and closes.
    package var actions: [BridgeAction] = []
    /// Whether to read from the socket.
    package var reads = true
    /// When ``woken(now:)`` must be called; nil: not by itself.
    package var wake: Instant?
    /// Who is a client has changed: the shell must judge this one again.
    package var mustBeJudged = false
  }

  private let settings: Settings
  private let logger: Logger
  /// Whether an app's queue takes more.
  private let hasRoom: @Sendable (PushApp) -> Bool
  private var session: BridgeSession
  private var app: BridgeApp?
  /// Nil: there is no client yet, or it was sent away.
  private(set) var arrivals: BridgeArrivals?
  private var hasConcluded = false
  /// An error response was written, and the client may not read it: the frames before this one are
  /// not remembered.
  private var unread: (end: BridgeEnd, before: UInt64)?
  /// The client has not closed the connection in time.
  private var hasGivenUp = false
  private var peerHasClosed = false
  private var isReading = true
  /// While the client has to wait because too many of its frames have no answer.
  private var producerWait: ProducerWait?
  private var countedFrames: UInt64 = 0

  /// How soon a full queue of the app is looked at again.
  private static let queueInterval = Duration.milliseconds(20)

  package init(_ settings: Settings, logger: Logger, hasRoom: @escaping @Sendable (PushApp) -> Bool) {
    (self.settings, self.logger, self.hasRoom) = (settings, logger, hasRoom)
    session = BridgeSession(settings.session)
  }

  /// Nil: it has no client, or has drawn its conclusion.
  package var openApp: String? { hasConcluded ? nil : arrivals?.client.app.id }
  /// Frames that have arrived and have no answer.
  package var pendingCount: Int { session.pendingCount }
  /// Frames that have arrived, also those that were refused.
  package var frameCount: UInt64 { session.frameCount }

  // MARK: Events

  /// The handshake is over.
  ///
  /// - Parameters:
  ///   - link: passes the app's messages; its wake leads to ``readMessages(now:)``.
  ///   - isEnding: the bridge takes no clients any more.
  package mutating func begin(
    _ app: BridgeApp, _ push: PushApp, _ link: BridgeLink, isEnding: Bool, now: Instant
  ) -> Output {
    self.app = app
    guard let wakes = app.add(link, limit: settings.limitPerApp, now: now) else {
      logger.warning(
        "a client of the bridge has too many connections",
        metadata: ["app": "\(app.id)", "limit": "\(settings.limitPerApp)"])
      link.close()
      return output(session.end(now: now), now: now)
    }
    for wake in wakes { wake() }
    arrivals = BridgeArrivals(
      BridgeClient(app: app, push: push, fingerprint: link.client, link: link), memory: settings.memory, logger: logger)
    return output(push.lastingStopReason != nil || isEnding ? session.end(now: now) : [], now: now)
  }

  package mutating func received(_ bytes: ByteBuffer, now: Instant) -> Output {
    guard var arrivals = self.arrivals.take() else { return output([], now: now) }
    arrivals.begin(now: now, forgets: settings.plantedMistake == .forgets)
    let actions = session.received(bytes, now: now, intake: &arrivals)
    let refused = arrivals.handOver()
    self.arrivals = arrivals
    guard let refused else { return output(actions, now: now) }
    noteJournalled()
    return output(actions + session.end(before: refused, now: now), now: now)
  }

  /// The client sends nothing more, and may still read.
  package mutating func peerClosed(now: Instant) -> Output {
    peerHasClosed = true
    arrivals?.trail.stop(now: now)
    return output(session.peerClosed(now: now), now: now)
  }

  /// The client must leave.
  package mutating func end(now: Instant) -> Output { output(session.end(now: now), now: now) }

  package mutating func woken(now: Instant) -> Output {
    noteJournalled()
    let actions = session.woken(now: now)
    if hasConcluded, actions.contains(.close) { hasGivenUp = true }
    return output(actions, now: now)
  }

  package mutating func readMessages(now: Instant) -> Output {
    var actions: [BridgeAction] = []
    var mustBeJudged = false
    for message in arrivals?.client.link.take() ?? [] {
      switch message {
      case .answer(let frame, let count, let answer):
        arrivals?.trail.answered(frame, count: count, answer)
        actions += session.answered(frame, count: count, answer, now: now)
      case .end(let latest):
        arrivals?.trail.stop(now: now)
        noteJournalled()
        actions += session.end(by: latest, now: now)
      case .clientsChanged: mustBeJudged = true
      case .sweep(let limit): arrivals?.trail.sweep(limit: limit, now: now)
      }
    }
    // Only now: a conclusion needs all the answers there are.
    var output = output(actions, now: now)
    output.mustBeJudged = mustBeJudged
    return output
  }

  /// The connection is gone. Unless its client closed, it does not know how far its frames came.
  package mutating func closed(now: Instant) {
    if !hasConcluded { conclude(peerHasClosed ? .closed : .broken, now: now) }
    if hasGivenUp { rememberUnread(now: now) }
    arrivals?.logResends()
    if let client = arrivals?.client { client.app.remove(client.link) }
    arrivals = nil
  }

  // MARK: Output

  private mutating func output(_ actions: [BridgeAction], now: Instant) -> Output {
    var output = Output()
    for action in actions {
      switch action {
      case .concluded(let end):
        conclude(end, now: now)
        if session.hasFailedSilently { app?.count { $0.silentCloses += 1 } }
        continue
      case .send(let response): app?.count { $0.responses[response.status.rawValue, default: 0] += 1 }
      case .halfClose, .close: break
      }
      output.actions.append(action)
    }
    countFrames()
    let hasRoom = hasConcluded || arrivals.map { self.hasRoom($0.client.push) } ?? true
    let mayResume = isReading || !session.takesFrames || hasRoomForMany
    setReading(session.wantsBytes && hasRoom && mayResume, now: now)
    output.reads = isReading
    output.wake = session.wake
    if !hasRoom { output.wake = min(now + Self.queueInterval, session.wake ?? now + Self.queueInterval) }
    return output
  }

  private mutating func countFrames() {
    guard session.frameCount > countedFrames, let app else { return }
    let count = Int(session.frameCount - countedFrames)
    countedFrames = session.frameCount
    app.count { $0.frames += count }
  }

  /// A pause ends when there is room for many frames, which are then handled together.
  private var hasRoomForMany: Bool { session.pendingCount <= settings.session.window.frameCount / 4 * 3 }

  private mutating func setReading(_ reads: Bool, now: Instant) {
    guard reads != isReading else { return }
    isReading = reads
    session.setReading(reads, now: now)
    if reads {
      endProducerWait()
    } else if session.takesFrames, let client = arrivals?.client {
      producerWait = ProducerWait(for: client.push)
    }
  }

  private mutating func endProducerWait() {
    producerWait?.end()
    producerWait = nil
  }

  private mutating func noteJournalled() {
    if let first = arrivals?.firstUnjournalled { session.journalled(before: first) }
  }

  private mutating func conclude(_ end: BridgeEnd, now: Instant) {
    hasConcluded = true
    endProducerWait()
    var mark = end
    if settings.plantedMistake == .remembersAllAfterBreaks, end == .broken { mark = .failed(from: 0) }
    guard let client = arrivals?.client, let remainder = arrivals?.trail.remainder(mark, now: now) else { return }
    if end.isByResponse, settings.plantedMistake != .trustsResponses {
      arrivals?.trail.stop(now: now)
      unread = (end, before: min(remainder.from ?? .max, remainder.recentFrom ?? .max))
    }
    let underway = Set(client.app.ended(client.link, end, remainder, isRead: unread == nil, now: now))
    guard !underway.isEmpty else { return }
    // Their answers have been put into the link.
    for case .answer(let number, let count, let answer) in client.link.take() {
      arrivals?.trail.answered(number, count: count, answer)
    }
    let rest = arrivals?.trail.frames(from: 0, now: now).filter { underway.contains($0.number) } ?? []
    _ = client.app.remember(rest, end, client.link, now: now)
  }

  /// The client has not closed its side behind the error response. What it still sends makes the
  /// connection end with a reset, which may destroy the response: then it takes that for broken.
  private mutating func rememberUnread(now: Instant) {
    guard let (end, limit) = unread, let client = arrivals?.client,
      var remainder = arrivals?.trail.remainder(.broken, now: now)
    else { return }
    remainder.again.removeAll { $0.number >= limit }
    client.app.mayNotHaveRead(client.link, end, remainder, now: now)
  }
}
