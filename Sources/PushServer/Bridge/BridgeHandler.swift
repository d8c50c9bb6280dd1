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

  private struct Client {
    let app: BridgeApp
    let push: PushApp
    /// Of its certificate.
    let fingerprint: String
  }

  private let bridge: Bridge
  private var context: ChannelHandlerContext?
  private var session: BridgeSession
  private var trail: BridgeTrail
  private var client: Client?
  private var link: BridgeLink?
  private var hasConcluded = false
  private var isHandshaking = true
  private var peerHasClosed = false
  private var isReading = true
  private var timer: (at: Instant, scheduled: Scheduled<Void>)?
  private var countedFrames: UInt64 = 0
  /// Of the bytes at hand: when they came, and whether frames of the client are remembered.
  private var readAt = Instant.start
  private var isRemembered = false
  /// What they have brought.
  private var taken = IntakeBatch()
  /// Of the frames in `taken`, in the same order.
  private var takenFrames: [(number: UInt64, digest: FrameDigest)] = []
  private var recognised: [FrameStretch] = []
  private var recognisedCount = 0
  private var preparation = BridgePreparation()

  /// How soon a full queue of the app is looked at again.
  private static let queueInterval = Duration.milliseconds(20)

  init(_ bridge: Bridge) {
    self.bridge = bridge
    session = BridgeSession(bridge.configuration.session)
    trail = BridgeTrail(limit: bridge.configuration.memory.count)
  }

  private var now: Instant { Instant(nanoseconds: NIODeadline.now().uptimeNanoseconds) }

  // MARK: Channel

  func handlerAdded(context: ChannelHandlerContext) { self.context = context }
  func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard let client, let link else { return }
    readAt = now
    // Asked once for all frames of a read. What a client sends again it sends after its other
    // connection has ended, and was remembered then.
    isRemembered = client.app.remembers(client.fingerprint)
    var intake = Intake(handler: self, client: client, link: link)
    let actions = session.received(unwrapInboundIn(data), now: readAt, intake: &intake)
    let withdrawal = handOver(client, link)
    perform(actions + withdrawal)
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    switch event {
    case TLSEvent.handshakeCompleted(let identity):
      isHandshaking = false
      begin(identity)
    case TLSEvent.inputClosed:
      peerHasClosed = true
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
    if !hasConcluded { conclude(from: peerHasClosed ? nil : 0) }
    if let client, let link { client.app.remove(link) }
    link = nil
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
    let link = BridgeLink { eventLoop.execute { bound.value.readMessages() } }
    client = Client(app: found.app, push: found.push, fingerprint: identity.fingerprint)
    guard found.app.add(link, limit: bridge.configuration.connectionLimitPerApp) else {
      bridge.logger.warning(
        "a client of the bridge has too many connections",
        metadata: ["app": "\(found.app.id)", "limit": "\(bridge.configuration.connectionLimitPerApp)"])
      link.close()
      return perform(session.end(now: now))
    }
    self.link = link
    if found.push.stopReason != nil || bridge.isEnding { perform(session.end(now: now)) }
  }

  // MARK: Frames

  private struct Intake: BridgeIntake {
    let handler: BridgeHandler
    let client: Client
    let link: BridgeLink

    mutating func take(_ frame: BridgeFrame, number: UInt64) -> FrameAnswer? {
      handler.take(frame, number, client, link)
    }
  }

  private func take(_ frame: BridgeFrame, _ number: UInt64, _ client: Client, _ link: BridgeLink) -> FrameAnswer? {
    if isRemembered,
      let known = client.app.recognise(
        frame.digest, client: client.fingerprint, frame: number, connection: link.id, now: readAt)
    {
      trail.took(frame.digest, line: known.line, answer: known.answer, now: readAt)
      recognised.append(number, frame.digest, as: known.line)
      if known.answer == nil || known.answer == .accepted { recognisedCount += 1 }
      return known.answer
    }
    trail.took(frame.digest, line: nil, answer: nil, now: readAt)
    do throws(CarillonError) {
      taken.append(try preparation.prepare(frame, client.push), frame.token)
      takenFrames.append((number, frame.digest))
      return nil
    } catch {
      bridge.logger.info("a frame cannot be sent", metadata: ["app": "\(client.app.id)", "why": "\(error.message)"])
      return .refused(.processingError)
    }
  }

  /// Gives the app what the bytes have brought. Returns what follows if it takes nothing.
  private func handOver(_ client: Client, _ link: BridgeLink) -> [BridgeAction] {
    if !recognised.isEmpty {
      client.app.recognised(
        recognised, count: recognisedCount, client: client.fingerprint, connection: link.id)
      recognised.removeAll(keepingCapacity: true)
      recognisedCount = 0
    }
    guard let first = takenFrames.first else { return [] }
    defer {
      taken.removeAll()
      takenFrames.removeAll(keepingCapacity: true)
    }
    do throws(CarillonError) {
      try client.push.take(taken) { places, run, firstLine in
        let frames = takenFrames
        var forwarded: [FrameStretch] = []
        var line = ForwardedLine(run, line: firstLine)
        for place in places.joined() {
          forwarded.append(frames[place].number, frames[place].digest, as: line)
          line = line.advanced(by: 1)
        }
        client.app.forwarded(forwarded, as: run, client: client.fingerprint, connection: link.id)
        for frames in forwarded { trail.forwarded(frames.number, count: frames.count, as: frames.line) }
      } answer: { problem in
        if problem != nil { link.put(.end)?() }
      }
      return []
    } catch {
      return session.end(before: first.number, now: now)
    }
  }

  // MARK: Answers

  private func readMessages() {
    guard let link else { return }
    let now = now
    var actions: [BridgeAction] = []
    for message in link.take() {
      switch message {
      case .answer(let frame, let count, let answer):
        trail.answered(frame, count: count, answer)
        actions += session.answered(frame, count: count, answer, now: now)
      case .end:
        actions += session.end(now: now)
      }
    }
    // Only now: a conclusion needs all the answers there are.
    perform(actions)
  }

  private func perform(_ actions: [BridgeAction]) {
    for action in actions {
      switch action {
      case .concluded(let frame):
        conclude(from: frame)
        if frame != nil, !actions.contains(where: \.isResponse) { client?.app.count { $0.silentCloses += 1 } }
      case .send(let response):
        client?.app.count { $0.responses[response.status.rawValue, default: 0] += 1 }
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

  private func conclude(from frame: UInt64?) {
    hasConcluded = true
    guard let client, let link else { return }
    let age = bridge.configuration.memory.age
    let frames = trail.frames(from: frame ?? 0, age: age, now: now)
    client.app.ended(link.id, from: frame)
    guard frame != nil else { return client.app.forget(frames) }
    let underway = client.app.remember(frames, client: client.fingerprint, now: now)
    guard !underway.isEmpty else { return }
    // Their answers have been put into the link.
    for case .answer(let number, let count, let answer) in link.take() {
      trail.answered(number, count: count, answer)
    }
    let numbers = Set(underway)
    let rest = trail.frames(from: frame ?? 0, age: age, now: now).filter { numbers.contains($0.number) }
    _ = client.app.remember(rest, client: client.fingerprint, now: now)
  }

  // MARK: Reading and time

  private func update() {
    if session.frameCount > countedFrames, let client {
      let count = Int(session.frameCount - countedFrames)
      countedFrames = session.frameCount
      client.app.count { $0.frames += count }
    }
    guard let context, context.channel.isActive else { return }
    let hasRoom = hasConcluded || client.map { bridge.hasRoom($0.push) } ?? true
    setReading(session.wantsBytes && hasRoom, context)
    if !hasRoom { schedule(at: now + Self.queueInterval, context) }
    if let wake = session.wake { schedule(at: wake, context) }
  }

  private func setReading(_ reads: Bool, _ context: ChannelHandlerContext) {
    guard reads != isReading else { return }
    isReading = reads
    context.triggerUserOutboundEvent(reads ? ReadingEvent.resume : .pause, promise: nil)
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
      bound.value.perform(bound.value.session.woken(now: bound.value.now))
    }
    timer = (time, scheduled)
  }
}

extension BridgeAction {
  fileprivate var isResponse: Bool { if case .send = self { true } else { false } }
}
