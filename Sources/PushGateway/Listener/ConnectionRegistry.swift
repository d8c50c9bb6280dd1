internal import NIOCore
internal import PushWire
internal import Synchronization

/// All open channels of one port of a simulator. It limits their number and lets the simulator
/// close them.
final class ConnectionRegistry: Sendable {
  private struct State {
    var channels: [ObjectIdentifier: any Channel] = [:]
    var admission = AdmissionControl()
    var isStopping = false
  }

  private let state = Mutex(State())
  private let limit: Int

  init(limit: Int) { self.limit = limit }

  /// Registers a new channel and returns how long its handshake must wait; nil: close it.
  func admit(_ channel: any Channel, now: Instant) -> Duration? {
    let identifier = ObjectIdentifier(channel)
    let address = channel.remoteAddress?.ipAddress ?? ""
    let wait: Duration? = state.withLock { state in
      guard !state.isStopping, state.channels.count < limit, let wait = state.admission.admit(address, now: now) else {
        return nil
      }
      state.channels[identifier] = channel
      return wait
    }
    guard wait != nil else { return nil }
    channel.closeFuture.whenComplete { [self] _ in state.withLock { $0.channels[identifier] = nil } }
    return wait
  }

  func handshakeEnded(_ channel: any Channel, succeeded: Bool, now: Instant) {
    guard let address = channel.remoteAddress?.ipAddress else { return }
    state.withLock { state in
      if succeeded { state.admission.succeeded(address) } else { state.admission.failed(address, now: now) }
    }
  }

  /// Admits no further channels. False: that was so already.
  func close() -> Bool {
    state.withLock { state in
      defer { state.isStopping = true }
      return !state.isStopping
    }
  }

  var openChannels: [any Channel] { state.withLock { Array($0.channels.values) } }
}

/// The handshake of one connection. Its end is counted once.
struct CountedHandshake {
  let registry: ConnectionRegistry
  let failed: @Sendable () -> Void
  private var isOver = false

  init(_ registry: ConnectionRegistry, failed: @escaping @Sendable () -> Void) {
    (self.registry, self.failed) = (registry, failed)
  }

  mutating func ended(succeeded: Bool, _ context: ChannelHandlerContext) {
    guard !isOver else { return }
    isOver = true
    registry.handshakeEnded(
      context.channel, succeeded: succeeded, now: Instant(nanoseconds: NIODeadline.now().uptimeNanoseconds))
    if !succeeded { failed() }
  }
}

extension ChannelHandler where Self: SendableMetatype {
  @discardableResult
  func schedule(
    at time: Instant, _ context: ChannelHandlerContext,
    _ body: @escaping @Sendable (Self, ChannelHandlerContext) -> Void
  ) -> Scheduled<Void> {
    let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
    return context.eventLoop.scheduleTask(deadline: .uptimeNanoseconds(min(time.nanoseconds, UInt64(Int64.max)))) {
      body(bound.value.0, bound.value.1)
    }
  }
}

/// Sent to every open channel when the simulator stops: the connection has this long to close in
/// order.
struct StopRequest: Sendable {
  let grace: Duration
}
