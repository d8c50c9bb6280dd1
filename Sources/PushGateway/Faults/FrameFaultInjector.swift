package import PushTransport
package import PushWire

/// Applies an app's fault rules to the frames of one connection. It counts frames and uses neither
/// time nor random numbers, so the same frames get the same verdicts.
package struct FrameFaultInjector: FramePolicy {
  private let refuse: [(matcher: TokenMatcher, status: GatewayStatus)]
  private let poison: [TokenMatcher]
  /// The accepted frame after which each happens; -1: never.
  private let resetAfter: Int
  private let closeAfter: Int
  private let shutDownAfter: Int
  private let stopReadingAfter: Int
  private let pause: Duration
  /// The next of these four, so that most frames cost one comparison.
  private var next: Int

  private var seen = 0
  private var accepted = 0

  /// `connection`: the number of this connection among its app's, from 1.
  package init(_ faults: Faults, connection: Int) {
    refuse = faults.refuse.compactMap { rule in
      TokenMatcher(rule.selection, connection: connection).map { ($0, rule.status) }
    }
    poison = faults.poison.compactMap { TokenMatcher($0, connection: connection) }
    func count(_ breakpoint: Faults.Breakpoint?) -> Int {
      guard let breakpoint, connection <= breakpoint.connections ?? .max else { return -1 }
      return breakpoint.after
    }
    resetAfter = count(faults.reset)
    closeAfter = count(faults.close)
    shutDownAfter = count(faults.shutDown)
    stopReadingAfter = count(faults.stopReading?.breakpoint)
    pause = faults.stopReading?.duration ?? .zero
    next = [resetAfter, closeAfter, shutDownAfter, stopReadingAfter].filter { $0 >= 0 }.min() ?? .max
  }

  package mutating func opened() -> ConnectionInterruption? { next == 0 ? interruption() : nil }

  package mutating func verdict(on frame: DecodedFrame) -> Verdict {
    seen += 1
    if let verdict = unsafe frame.token.withUnsafeBytes({ unsafe fault($0) }) { return verdict }
    accepted += 1
    guard accepted == next, let interruption = interruption() else { return .accept }
    return .acceptThen(interruption)
  }

  /// What the rules say of the frame that was seen last; nil: nothing.
  private func fault(_ token: UnsafeRawBufferPointer) -> Verdict? {
    for matcher in poison where unsafe matcher.matches(token, ordinal: seen) { return .poison }
    for rule in refuse where unsafe rule.matcher.matches(token, ordinal: seen) { return .refuse(rule.status) }
    return nil
  }

  package mutating func refused(_ frame: DecodedFrame, as refusal: Refusal) {}

  private mutating func interruption() -> ConnectionInterruption? {
    let reached = next
    next = [resetAfter, closeAfter, shutDownAfter, stopReadingAfter].filter { $0 > reached }.min() ?? .max
    if resetAfter == reached { return .reset }
    if closeAfter == reached { return .close }
    if shutDownAfter == reached { return .shutDown }
    return stopReadingAfter == reached ? .stopReading(pause) : nil
  }
}

extension GatewaySession.Settings {
  /// The settings with the app's faults.
  package init(_ faults: Faults) {
    self.init()
    (limits, answerDelay) = (faults.limits, faults.answerDelay)
    (namesRefusedFrame, namesProbe) = (faults.namesRefusedFrame, faults.namesProbe)
  }
}
