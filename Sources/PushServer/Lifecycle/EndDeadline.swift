internal import NIOCore
internal import NIOPosix
internal import PushWire
internal import Synchronization

/// Reports a service that was asked to end and has not.
///
/// Each part of the end has a bound of its own. This one is for what none of them covers, such as a
/// file system that does not answer any more.
final class EndDeadline: Sendable {
  let limit: Duration
  private let passed: @Sendable (String) -> Void
  private let timer = Mutex<Scheduled<Void>?>(nil)

  /// - Parameters:
  ///   - shutdown: how long the parts may take.
  ///   - slack: how much longer all of them together may take.
  ///   - passed: called with a sentence when the time is over.
  init(
    _ shutdown: ServerConfiguration.Shutdown, slack: Duration = .seconds(15),
    passed: @escaping @Sendable (String) -> Void
  ) {
    // The API, the bridge, and the apps, which may need the time twice.
    limit = shutdown.announce + shutdown.drain * 4 + slack
    self.passed = passed
  }

  /// The end begins. Further calls have no effect.
  func begin() {
    let sentence =
      "The service has not ended within \(limit.spoken) and gives up. What it had not finished is in the journal, and "
      + "the next start resumes it."
    timer.withLock { [passed] timer in
      guard timer == nil else { return }
      let loop = MultiThreadedEventLoopGroup.singleton.next()
      timer = loop.scheduleTask(in: TimeAmount(limit)) { passed(sentence) }
    }
  }

  func cancel() { timer.withLock { $0?.cancel() } }
}
