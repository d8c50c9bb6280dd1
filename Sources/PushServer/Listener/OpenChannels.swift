internal import Logging
internal import NIOCore
internal import PushService
internal import PushWire
internal import Synchronization

/// The open connections of a listener: their shares, and that they can be closed together.
final class OpenChannels: Sendable {
  typealias Limits = ConnectionShares<ObjectIdentifier>.Limits

  private struct State {
    var shares: ConnectionShares<ObjectIdentifier>
    var channels: [ObjectIdentifier: any Channel] = [:]
    var warnedAt: Instant?
  }

  private let state: Mutex<State>
  let clock: any ServiceClock
  private let logger: Logger?

  /// Closed and refused connections are logged once in this time.
  private static let silence = Duration.seconds(60)

  init(_ limits: Limits = Limits(), clock: any ServiceClock = MachineClock(), logger: Logger? = nil) {
    state = Mutex(State(shares: ConnectionShares(limits)))
    (self.clock, self.logger) = (clock, logger)
  }

  var isEmpty: Bool { state.withLock { $0.channels.isEmpty } }
  /// Newcomers wait.
  var isFull: Bool { state.withLock { $0.shares.isFull } }

  /// - Returns: false if the address has its share.
  @discardableResult
  func add(_ channel: any Channel, from address: String = "") -> Bool {
    let id = ObjectIdentifier(channel)
    let (arrival, oldest) = state.withLock { state in
      let arrival = state.shares.add(id, from: address)
      guard case .admitted(let closing) = arrival else { return (arrival, (any Channel)?.none) }
      state.channels[id] = channel
      return (arrival, closing.flatMap { state.channels[$0] })
    }
    if let oldest {
      oldest.close(promise: nil)
      warn("connections without a key are closed: there are as many as may be")
    }
    guard arrival != .refused else {
      warn("connections are refused: their address has as many as one may have", address)
      return false
    }
    channel.closeFuture.whenComplete { [self] _ in
      state.withLock { state in
        state.channels[id] = nil
        state.shares.remove(id)
      }
    }
    return true
  }

  /// A request of the connection has shown whether it has a valid key.
  func note(_ channel: any Channel, hasKey: Bool) {
    state.withLock { $0.shares.note(ObjectIdentifier(channel), hasKey: hasKey) }
  }

  private func warn(_ message: Logger.Message, _ address: String? = nil) {
    let now = clock.uptime
    let isDue = state.withLock { state in
      if let last = state.warnedAt, now.since(last) < Self.silence { return false }
      state.warnedAt = now
      return true
    }
    guard isDue else { return }
    logger?.warning(message, metadata: address.map { ["address": "\($0)"] } ?? [:])
  }

  /// Whatever they do at present.
  func close() async {
    for channel in state.withLock({ Array($0.channels.values) }) { try? await channel.close(mode: .all).get() }
  }
}
