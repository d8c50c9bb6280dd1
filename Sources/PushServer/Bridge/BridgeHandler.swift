internal import Carillon
internal import Logging
internal import NIOCore
internal import PushTransport
internal import PushWire

/// One client of the bridge: a channel handler around a ``BridgeSession``. Used on its channel's
/// event loop only.
final class BridgeHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private let bridge: Bridge
  private let tls: TLSHandler
  /// Of who is a client, before this one's handshake.
  private let generation: Int
  private var context: ChannelHandlerContext?
  private var session: BridgeSession
  private var app: BridgeApp?
  /// Nil: there is no client yet, or it was sent away.
  private var arrivals: BridgeArrivals?
  private var hasConcluded = false
  private var isHandshaking = true
  private var peerHasClosed = false
  private var isReading = true
  /// While the client has to wait because too many of its frames have no answer.
  private var producerWait: ProducerWait?
  private var timer: (at: Instant, scheduled: Scheduled<Void>)?
  private var countedFrames: UInt64 = 0

  /// How soon a full queue of the app is looked at again.
  private static let queueInterval = Duration.milliseconds(20)

  init(_ bridge: Bridge, _ tls: TLSHandler) {
    self.bridge = bridge
    self.tls = tls
    generation = bridge.generation
    session = BridgeSession(bridge.configuration.session)
  }

  private var now: Instant { Instant(nanoseconds: NIODeadline.now().uptimeNanoseconds) }

  // MARK: Channel

  func handlerAdded(context: ChannelHandlerContext) { self.context = context }
  func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard arrivals != nil else { return }
    perform(receive(unwrapInboundIn(data), now: now))
  }

  private func receive(_ bytes: ByteBuffer, now: Instant) -> [BridgeAction] {
    guard var arrivals = self.arrivals.take() else { return [] }
    arrivals.begin(now: now)
    let actions = session.received(bytes, now: now, intake: &arrivals)
    let refused = arrivals.handOver()
    self.arrivals = arrivals
    if refused != nil { noteJournalled() }
    return refused.map { actions + session.end(before: $0, now: now) } ?? actions
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    switch event {
    case TLSEvent.handshakeCompleted(let identity):
      isHandshaking = false
      begin(identity)
    case TLSEvent.inputClosed:
      peerHasClosed = true
      arrivals?.trail.stop(now: now)
      perform(session.peerClosed(now: now))
    default:
      context.fireUserInboundEventTriggered(event)
    }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    // After a failed handshake, TLS sends its alert and closes.
    guard !isHandshaking else { return bridge.handshakeFailed(context.remoteAddress?.ipAddress ?? "", "\(error)") }
    context.close(promise: nil)
  }

  func channelInactive(context: ChannelHandlerContext) {
    timer?.scheduled.cancel()
    // The connection broke: the client does not know how far it came. One that has closed its side
    // does not send anything again.
    if !hasConcluded { conclude(peerHasClosed ? .closed : .broken) }
    arrivals?.logResends()
    if let client = arrivals?.client { client.app.remove(client.link) }
    arrivals = nil
    bridge.closed()
    context.fireChannelInactive()
  }

  private func begin(_ identity: PeerIdentity?) {
    guard let context, let identity, let found = bridge.client(identity) else {
      self.context?.close(promise: nil)
      return
    }
    let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
    let eventLoop = context.eventLoop
    let link = BridgeLink(client: identity.fingerprint) { eventLoop.execute { bound.value.readMessages() } }
    app = found.app
    guard let wakes = found.app.add(link, limit: bridge.configuration.connectionLimitPerApp) else {
      bridge.logger.warning(
        "a client of the bridge has too many connections",
        metadata: ["app": "\(found.app.id)", "limit": "\(bridge.configuration.connectionLimitPerApp)"])
      link.close()
      return perform(session.end(now: now))
    }
    for wake in wakes { wake() }
    arrivals = BridgeArrivals(
      BridgeClient(app: found.app, push: found.push, fingerprint: identity.fingerprint, link: link),
      memory: bridge.configuration.memory, logger: bridge.logger)
    let now = now
    if bridge.generation != generation { perform(judgeAgain(now: now)) }
    if found.push.lastingStopReason != nil || bridge.isEnding { perform(session.end(now: now)) }
  }

  /// Ends the connection if a new one of this client would be refused, or be another app's.
  private func judgeAgain(now: Instant) -> [BridgeAction] {
    guard !hasConcluded, let client = arrivals?.client, let context = bridge.tlsContext,
      let identity = tls.peerIdentity(trustedBy: context)
    else { return [] }
    let why: String
    switch bridge.answer(for: identity) {
    case .app(client.app.id, _): return []
    case .app(let other, let reason): why = "it is a client of \(other) now: \(reason)"
    case .refused(let reason): why = reason
    }
    bridge.logger.notice(
      "a client of the bridge has to leave",
      metadata: ["app": "\(client.app.id)", "certificate": "\(identity.subject)", "why": "\(why)"])
    return session.end(now: now)
  }

  // MARK: Answers

  private func readMessages() {
    guard let link = arrivals?.client.link else { return }
    let now = now
    var actions: [BridgeAction] = []
    for message in link.take() {
      switch message {
      case .answer(let frame, let count, let answer):
        arrivals?.trail.answered(frame, count: count, answer)
        actions += session.answered(frame, count: count, answer, now: now)
      case .end(let latest):
        arrivals?.trail.stop(now: now)
        noteJournalled()
        actions += session.end(by: latest, now: now)
      case .clientsChanged:
        actions += judgeAgain(now: now)
      case .sweep(let limit):
        arrivals?.trail.sweep(limit: limit, now: now)
      }
    }
    // Only now: a conclusion needs all the answers there are.
    perform(actions)
  }

  private func perform(_ actions: [BridgeAction]) {
    for action in actions {
      switch action {
      case .concluded(let end):
        conclude(end)
        if session.hasFailedSilently { app?.count { $0.silentCloses += 1 } }
      case .send(let response):
        app?.count { $0.responses[response.status.rawValue, default: 0] += 1 }
        // One write makes one TLS record and one segment.
        context?.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: response.bytes)), promise: nil)
      case .halfClose:
        context?.close(mode: .output, promise: nil)
      case .close:
        context?.close(mode: .all, promise: nil)
      }
    }
    update()
  }

  private func noteJournalled() {
    if let arrivals { session.journalled(before: arrivals.firstUnjournalled) }
  }

  private func conclude(_ end: BridgeEnd) {
    hasConcluded = true
    endProducerWait()
    let now = now
    guard let client = arrivals?.client, let remainder = arrivals?.trail.remainder(end, now: now) else { return }
    let underway = Set(client.app.ended(client.link, end, remainder, now: now))
    guard !underway.isEmpty else { return }
    // Their answers have been put into the link.
    for case .answer(let number, let count, let answer) in client.link.take() {
      arrivals?.trail.answered(number, count: count, answer)
    }
    let rest = arrivals?.trail.frames(from: 0, now: now).filter { underway.contains($0.number) } ?? []
    _ = client.app.remember(rest, end, client.link, now: now)
  }

  // MARK: Reading and time

  private func update() {
    if session.frameCount > countedFrames, let app {
      let count = Int(session.frameCount - countedFrames)
      countedFrames = session.frameCount
      app.count { $0.frames += count }
    }
    guard let context, context.channel.isActive else { return }
    let hasRoom = hasConcluded || arrivals.map { bridge.hasRoom($0.client.push) } ?? true
    let mayResume = isReading || !session.takesFrames || hasRoomForMany
    setReading(session.wantsBytes && hasRoom && mayResume, context)
    if !hasRoom { schedule(at: now + Self.queueInterval, context) }
    if let wake = session.wake { schedule(at: wake, context) }
  }

  /// A pause ends when there is room for many frames, which are then handled together. With every
  /// answer there is room for one.
  private var hasRoomForMany: Bool {
    session.pendingCount <= bridge.configuration.session.window.frameCount / 4 * 3
  }

  private func setReading(_ reads: Bool, _ context: ChannelHandlerContext) {
    guard reads != isReading else { return }
    isReading = reads
    session.setReading(reads, now: now)
    if reads {
      endProducerWait()
    } else if session.takesFrames, let client = arrivals?.client {
      producerWait = ProducerWait(for: client.push)
    }
    context.triggerUserOutboundEvent(reads ? ReadingEvent.resume : .pause, promise: nil)
  }

  private func endProducerWait() {
    producerWait?.end()
    producerWait = nil
  }

  /// A timer that is earlier than needed does no harm.
  private func schedule(at time: Instant, _ context: ChannelHandlerContext) {
    if let timer, timer.at <= time { return }
    timer?.scheduled.cancel()
    let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
    let scheduled = context.eventLoop.scheduleTask(
      deadline: .uptimeNanoseconds(min(time.nanoseconds, UInt64(Int64.max)))
    ) {
      bound.value.timer = nil
      bound.value.noteJournalled()
      bound.value.perform(bound.value.session.woken(now: bound.value.now))
    }
    timer = (time, scheduled)
  }
}
