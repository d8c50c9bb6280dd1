internal import Foundation
internal import Logging
internal import NIOCore
internal import Synchronization

/// Stops accepting connections for a second when the process has no descriptors left. NIO would try
/// again at once, as long as anybody waits to be accepted.
final class AcceptPause: ChannelInboundHandler, Sendable {
  typealias InboundIn = any Channel

  /// Lack of descriptors is logged once in this time.
  private static let silence = Duration.seconds(60)
  private static let pause = TimeAmount.seconds(1)

  private let logger: Logger
  private let paused = Atomic<Bool>(false)
  private let loggedAt = Mutex<ContinuousClock.Instant?>(nil)

  init(_ logger: Logger) { self.logger = logger }

  /// Nobody is accepted at present.
  var isPaused: Bool { paused.load(ordering: .relaxed) }

  static func isLack(_ error: any Error) -> Bool {
    guard let error = error as? IOError else { return false }
    return [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(error.errnoCode)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    guard Self.isLack(error) else { return context.fireErrorCaught(error) }
    log(error)
    let channel = context.channel
    guard !paused.exchange(true, ordering: .relaxed) else { return }
    try? channel.syncOptions?.setOption(.autoRead, value: false)
    channel.eventLoop.scheduleTask(in: Self.pause) { [self] in
      paused.store(false, ordering: .relaxed)
      try? channel.syncOptions?.setOption(.autoRead, value: true)
    }
  }

  private func log(_ error: any Error) {
    let isDue = loggedAt.withLock { last in
      if let last, ContinuousClock.now - last < Self.silence { return false }
      last = .now
      return true
    }
    guard isDue else { return }
    logger.error(
      "no connection can be accepted: too many open files",
      metadata: [
        "why": "\(error)", "what helps": "a higher limit of open files, such as LimitNOFILE, or fewer connections",
      ])
  }
}
