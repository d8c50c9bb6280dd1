internal import PushWire

extension GatewaySession {
  /// A session without its decoder.
  struct Core: ~Copyable {
    private enum State {
      /// Frames are judged. Ends when a frame is refused, or by an interruption.
      case reading
      /// The error response (nil: a close without one) is delayed until `due`. What arrives is
      /// discarded.
      case answering(ErrorResponse?, due: Instant)
      /// The error response is written and the connection half-closed. What arrives is read and
      /// discarded, because a RST could destroy the response on its way. Ends when the client
      /// closes, or at a limit.
      case draining(byteLimit: Int, until: Instant)
      case closed
    }

    private let settings: Settings
    private(set) var counts = Counts()
    private var state = State.reading
    private var actions: [GatewayAction] = []
    private var payloads = PayloadRepetition()

    private var lastAccepted: UInt32 = 0
    private var peerHasClosed = false
    private var lastRead = Instant.start
    /// When the frame began that the decoder holds in part; nil when it holds none.
    private var incompleteSince: Instant?
    private var framesAtBegin = 0

    init(_ settings: Settings) { self.settings = settings }

    var isClosed: Bool {
      if case .closed = state { true } else { false }
    }

    mutating func takeActions() -> [GatewayAction] { actions.isEmpty ? [] : exchange(&actions, with: []) }
  }
}

// MARK: - Events

extension GatewaySession.Core {
  mutating func opened(now: Instant, interruption: ConnectionInterruption?) {
    lastRead = now
    actions.append(.wake(at: now + checkInterval))
    if let interruption { interrupt(interruption, now: now) }
  }

  mutating func beginRead(_ byteCount: Int, now: Instant) {
    counts.bytes += byteCount
    guard !isClosed else { return }
    lastRead = max(lastRead, now)
    framesAtBegin = counts.accepted
    if case .draining(let byteLimit, let until) = state {
      guard byteCount <= byteLimit else { return close() }
      state = .draining(byteLimit: byteLimit - byteCount, until: until)
    }
  }

  /// Judges one frame. A frame that breaks a rule may be incomplete.
  mutating func decoded(_ frame: DecodedFrame, now: Instant, policy: inout some FramePolicy & ~Copyable) {
    guard case .reading = state else {
      counts.discarded += 1
      return
    }
    if let violation = frame.violation {
      let isProbe = violation == .missingDeviceToken && frame.identifier != nil
      refuse(frame, as: isProbe ? .probe : .status(violation), now: now, policy: &policy)
    } else if settings.checksJSON, unsafe !frame.payload.withUnsafeBytes({ unsafe payloads.isValid($0) }) {
      refuse(frame, as: .status(.processingError), now: now, policy: &policy)
    } else {
      switch policy.verdict(on: frame) {
      case .accept: accept(frame)
      case .acceptThen(let interruption):
        accept(frame)
        interrupt(interruption, now: now)
      case .refuse(let status): refuse(frame, as: .status(status), now: now, policy: &policy)
      case .poison: refuse(frame, as: .poison, now: now, policy: &policy)
      }
    }
  }

  mutating func endRead(holdsIncompleteFrame: Bool, now: Instant) {
    if !holdsIncompleteFrame {
      incompleteSince = nil
    } else if incompleteSince == nil || counts.accepted != framesAtBegin {
      incompleteSince = max(lastRead, now)
    }
  }

  mutating func woken(now: Instant) {
    switch state {
    case .reading:
      let isIdle = now.since(lastRead) >= settings.idleLimit
      let isStalled = incompleteSince.map { now.since($0) >= settings.frameTimeLimit } ?? false
      if isIdle || isStalled {
        halfClose(now: now)
      } else {
        actions.append(.wake(at: now + checkInterval))
      }
    case .answering(let answer, let due):
      if now >= due { write(answer, now: now) } else { actions.append(.wake(at: due)) }
    case .draining(_, let until):
      if now >= until { close() } else { actions.append(.wake(at: until)) }
    case .closed:
      break
    }
  }

  mutating func peerClosed() {
    peerHasClosed = true
    switch state {
    // The client can still read. It gets the error response when that is due.
    case .answering, .closed: break
    case .reading, .draining: close()
    }
  }

  mutating func shutDown(now: Instant) {
    guard case .reading = state else { return }
    interrupt(.shutDown, now: now)
  }
}

// MARK: - Steps

extension GatewaySession.Core {
  /// One timer serves both limits, so a read sets no timer. A limit is noticed at most one interval
  /// late.
  private var checkInterval: Duration { min(settings.idleLimit, settings.frameTimeLimit) }

  private mutating func accept(_ frame: DecodedFrame) {
    counts.accepted += 1
    lastAccepted = frame.identifier ?? 0
  }

  private mutating func refuse(
    _ frame: DecodedFrame, as refusal: Refusal, now: Instant, policy: inout some FramePolicy & ~Copyable
  ) {
    counts.refusal = refusal
    policy.refused(frame, as: refusal)
    let answer: ErrorResponse? =
      switch refusal {
      case .poison: nil
      case .status where frame.command == .simple: nil
      case .status(let status):
        ErrorResponse(status: status, identifier: settings.namesRefusedFrame ? frame.identifier ?? 0 : 0)
      case .probe:
        ErrorResponse(status: .missingDeviceToken, identifier: settings.namesProbe ? frame.identifier ?? 0 : 0)
      }
    end(with: answer, now: now)
  }

  private mutating func interrupt(_ interruption: ConnectionInterruption, now: Instant) {
    switch interruption {
    case .shutDown: end(with: ErrorResponse(status: .shutdown, identifier: lastAccepted), now: now)
    case .close: halfClose(now: now)
    case .reset:
      actions.append(.reset)
      state = .closed
    case .stopReading(let duration):
      // The client is not idle while the gateway reads nothing.
      lastRead = max(lastRead, now + duration)
      actions.append(.stopReading(until: now + duration))
    }
  }

  private mutating func end(with answer: ErrorResponse?, now: Instant) {
    if settings.answerDelay > .zero {
      let due = now + settings.answerDelay
      state = .answering(answer, due: due)
      actions.append(.wake(at: due))
    } else {
      write(answer, now: now)
    }
  }

  private mutating func write(_ answer: ErrorResponse?, now: Instant) {
    if let answer { actions.append(.send(answer)) }
    halfClose(now: now)
  }

  private mutating func halfClose(now: Instant) {
    guard !peerHasClosed else { return close() }
    let until = now + settings.drainTimeLimit
    state = .draining(byteLimit: settings.drainByteLimit, until: until)
    actions.append(.halfClose)
    actions.append(.wake(at: until))
  }

  private mutating func close() {
    actions.append(.close)
    state = .closed
  }
}
