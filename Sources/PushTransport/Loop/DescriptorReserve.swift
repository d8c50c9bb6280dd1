internal import Glibc
package import NIOCore
internal import PushWire
internal import Synchronization

/// File descriptors that the listeners of a process share out when there are no others.
///
/// Without a descriptor, a listener cannot accept a connection and would be told of it again at
/// once, for as long as anybody waits. So all listeners for clients pause, and the reserve is given
/// to those that answer for the process's health, and to its files. The pause ends when the whole
/// reserve can be taken back.
package final class DescriptorReserve: Sendable {
  /// What a listener is for.
  package enum Use: Sendable {
    /// It pauses as long as descriptors are lacking.
    case clients
    /// It goes on with the reserve.
    case health
  }

  private struct State {
    var shortage = DescriptorShortage()
    var descriptors: [Int32] = []
    /// Listeners for clients.
    var listeners: [ObjectIdentifier: any Channel] = [:]
  }

  private let count: Int
  private let report: @Sendable (any Error) -> Void
  private let state = Mutex(State())

  /// - Parameters:
  ///   - count: descriptors that it holds.
  ///   - report: called once for each shortage, with the error of the system.
  package init(count: Int = 16, report: @escaping @Sendable (any Error) -> Void) {
    (self.count, self.report) = (count, report)
    state.withLock { $0.descriptors = Self.take(count) }
  }

  deinit { Self.give(state.withLock { exchange(&$0.descriptors, with: []) }) }

  /// Clients are not accepted at present.
  package var isPaused: Bool { state.withLock { $0.shortage.isPaused } }
  /// Descriptors are lacking, or were within the last minute.
  package var isShort: Bool { state.withLock { $0.shortage.isOpen(now: .now) } }
  /// Shortages since the process began.
  package var shortageCount: Int { state.withLock { $0.shortage.count } }

  /// The handler that a listener's channel needs, as its first one.
  package func handler(_ use: Use = .clients) -> AcceptPause { AcceptPause(self, use) }

  // MARK: Listeners

  fileprivate func add(_ listener: any Channel) {
    let isPaused = state.withLock { state in
      state.listeners[ObjectIdentifier(listener)] = listener
      return state.shortage.isPaused
    }
    if isPaused { Self.setReading(listener, false) }
  }

  fileprivate func remove(_ listener: any Channel) {
    state.withLock { _ = $0.listeners.removeValue(forKey: ObjectIdentifier(listener)) }
  }

  /// A listener has found no descriptor.
  ///
  /// - Parameter eventLoop: of the listener. It looks for the end.
  fileprivate func isLacking(_ error: any Error, _ eventLoop: any EventLoop) {
    let (begins, pauses, listeners) = state.withLock { state in
      let (begins, pauses) = state.shortage.met(now: .now)
      return (begins, pauses, Array(state.listeners.values))
    }
    if begins { report(error) }
    guard pauses else { return }
    // The reserve is for others than clients, so none of them may be accepted any more.
    let stops = listeners.map { $0.setOption(.autoRead, value: false) }
    EventLoopFuture.andAllComplete(stops, on: eventLoop).whenComplete { [self] _ in
      Self.give(state.withLock { exchange(&$0.descriptors, with: []) })
      lookLater(eventLoop)
    }
  }

  private func lookLater(_ eventLoop: any EventLoop) {
    eventLoop.scheduleTask(in: TimeAmount(DescriptorShortage.pause)) { [self] in look(eventLoop) }
  }

  private func look(_ eventLoop: any EventLoop) {
    let listeners = state.withLock { state -> [any Channel]? in
      let taken = Self.take(count)
      let isWhole = taken.count == count
      state.shortage.looked(isWhole: isWhole, now: .now)
      guard isWhole else {
        Self.give(taken)
        return nil
      }
      state.descriptors = taken
      return Array(state.listeners.values)
    }
    guard let listeners else { return lookLater(eventLoop) }
    for listener in listeners { Self.setReading(listener, true) }
  }

  private static func setReading(_ listener: any Channel, _ reads: Bool) {
    // It fails only for a listener that is closed.
    listener.setOption(.autoRead, value: reads).whenFailure { _ in }
  }

  // MARK: Descriptors

  private static func take(_ count: Int) -> [Int32] {
    var taken: [Int32] = []
    while taken.count < count {
      let descriptor = unsafe open("/dev/null", O_RDONLY | O_CLOEXEC)
      guard descriptor >= 0 else { break }
      taken.append(descriptor)
    }
    return taken
  }

  private static func give(_ descriptors: [Int32]) { for descriptor in descriptors { _ = close(descriptor) } }
}

/// Stops a listener for as long as it can accept nobody: see ``DescriptorReserve``.
package final class AcceptPause: ChannelInboundHandler, Sendable {
  package typealias InboundIn = any Channel

  /// What answers for the process's health tries again after this time: the reserve is free then.
  private static let retry = TimeAmount.milliseconds(20)

  private let reserve: DescriptorReserve
  private let use: DescriptorReserve.Use

  fileprivate init(_ reserve: DescriptorReserve, _ use: DescriptorReserve.Use) {
    (self.reserve, self.use) = (reserve, use)
  }

  package func handlerAdded(context: ChannelHandlerContext) { if use == .clients { reserve.add(context.channel) } }
  package func handlerRemoved(context: ChannelHandlerContext) { reserve.remove(context.channel) }

  package func errorCaught(context: ChannelHandlerContext, error: any Error) {
    guard DescriptorShortage.isCause(of: error) else { return context.fireErrorCaught(error) }
    let channel = context.channel
    // At once: the system reports the waiting connection until it is accepted.
    try? channel.syncOptions?.setOption(.autoRead, value: false)
    if use == .health {
      channel.eventLoop.scheduleTask(in: Self.retry) { try? channel.syncOptions?.setOption(.autoRead, value: true) }
    }
    reserve.isLacking(error, channel.eventLoop)
  }
}

extension Instant {
  fileprivate static var now: Instant { Instant(nanoseconds: NIODeadline.now().uptimeNanoseconds) }
}
