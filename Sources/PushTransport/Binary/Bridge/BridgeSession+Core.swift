internal import PushWire

extension BridgeSession {
  /// A session without its decoder.
  struct Core: ~Copyable {
    private enum Phase {
      case open
      /// The conclusion is written and the connection half-closed. What arrives is read and
      /// discarded, because a RST could destroy the response on its way.
      case draining(until: Instant)
      case closed
    }

    private let settings: Settings
    var window: BridgeWindow
    private var phase = Phase.open
    private var actions: [BridgeAction] = []
    private var payloads = PayloadRepetition()
    private var payloadDigest = FrameDigest(high: 0, low: 0)
    private var peerHasClosed = false
    private var brokeOff = false
    /// Whether the decoder holds a part of a frame.
    private var holdsPart = false
    /// Whether the shell reads from the socket.
    private var isReading = true
    /// Since when the rest of a frame is awaited from the client. Nil: it is not. While nothing is
    /// read, the rest may wait in the socket.
    private var partSince: Instant?
    private var frameCountAtRead: UInt64 = 0

    init(_ settings: Settings) {
      self.settings = settings
      window = BridgeWindow(settings.window)
    }

    var isClosed: Bool { if case .closed = phase { true } else { false } }

    var takesFrames: Bool { if case .open = phase { window.takesFrames } else { false } }

    var wantsBytes: Bool {
      switch phase {
      // Discarded frames cost nothing: the client continues to send until it reads the response.
      case .open: !window.takesFrames || window.hasRoom
      case .draining: true
      case .closed: false
      }
    }

    var wake: Instant? {
      switch phase {
      case .open: [window.deadline, partSince.map { $0 + settings.frameTime }].compactMap { $0 }.min()
      case .draining(let until): until
      case .closed: nil
      }
    }

    // MARK: Events

    mutating func decoded(_ frame: DecodedFrame, now: Instant, intake: inout some BridgeIntake & ~Copyable) {
      let number = window.arrived(
        identifier: frame.identifier, isSimple: frame.command == .simple, byteCount: frame.payload.count)
      let answer: FrameAnswer?
      if let violation = frame.violation {
        answer = .refused(violation)
      } else if unsafe !frame.payload.withUnsafeBytes({ unsafe keep($0) }) {
        answer = .refused(.processingError)
      } else if let token = TokenBytes(bytes: frame.token) {
        let digest = FrameDigest(token: token, payload: payloadDigest, expiration: frame.expiration)
        answer = intake.take(
          BridgeFrame(
            token: token, payload: payloads.payload, expiration: frame.expiration,
            priority: frame.priority, digest: digest), number: number)
      } else {
        answer = .refused(.invalidTokenSize)
      }
      if let answer { window.answered(number, answer, now: now) }
    }

    /// False: it is not valid.
    private mutating func keep(_ bytes: UnsafeRawBufferPointer) -> Bool {
      switch unsafe payloads.check(bytes) {
      case .invalid: return false
      case .same: return true
      case .new:
        payloadDigest = unsafe FrameDigest(of: bytes)
        return true
      }
    }

    mutating func read(holdsPart: Bool) {
      if window.nextFrame != frameCountAtRead { partSince = nil }
      frameCountAtRead = window.nextFrame
      self.holdsPart = holdsPart
    }

    mutating func setReading(_ isReading: Bool, now: Instant) {
      self.isReading = isReading
      awaitPart(now: now)
    }

    mutating func peerClosed(holdsPart: Bool, now: Instant) {
      peerHasClosed = true
      // Behind a frame that failed, the decoder goes no further: its part says nothing.
      brokeOff = holdsPart && window.takesFrames
      switch phase {
      case .open: window.peerClosed(now: now)
      case .draining: close()
      case .closed: break
      }
    }

    mutating func woken(now: Instant) {
      switch phase {
      case .open:
        window.woken(now: now)
        // A client that stops in the middle of a frame.
        if let partSince, now >= partSince + settings.frameTime { window.end(now: now) }
      case .draining(let until): if now >= until { close() }
      case .closed: break
      }
    }

    // MARK: Steps

    mutating func takeActions(now: Instant) -> [BridgeAction] {
      if case .open = phase, let conclusion = window.conclusion { conclude(conclusion, now: now) }
      awaitPart(now: now)
      return actions.isEmpty ? [] : exchange(&actions, with: [])
    }

    private mutating func awaitPart(now: Instant) {
      guard case .open = phase, holdsPart, isReading, !peerHasClosed, window.takesFrames, window.hasRoom else {
        partSince = nil
        return
      }
      if partSince == nil { partSince = now }
    }

    private mutating func conclude(_ conclusion: BridgeWindow.Conclusion, now: Instant) {
      switch conclusion {
      case .failed(let frame, let response?): finish(.failed(from: frame + 1), response, now: now)
      case .shutDown(let frame, let response?):
        finish(.shutDown(from: frame, unanswered: window.firstUnanswered), response, now: now)
      // A client of command 0 learns nothing, and takes everything for accepted.
      case .failed(_, nil): finish(.closed, nil, now: now)
      // A client that breaks off in the middle of a frame does not know how far it came.
      case .shutDown(_, nil), .finished: finish(brokeOff ? .broken : .closed, nil, now: now)
      }
    }

    private mutating func finish(_ end: BridgeEnd, _ response: ErrorResponse?, now: Instant) {
      actions.append(.concluded(end))
      if let response { actions.append(.send(response)) }
      if peerHasClosed {
        close()
      } else {
        phase = .draining(until: now + settings.drainTime)
        actions.append(.halfClose)
      }
    }

    private mutating func close() {
      actions.append(.close)
      phase = .closed
    }
  }
}
