internal import NIOCore
internal import PushWire

/// Bounds how many dials to one endpoint go on at a time on an event loop, by how fast they complete.
///
/// A thousand apps that connect at once would otherwise wait for each other's handshakes, on both sides, until all of them time out. A dial that waits here has not
/// begun, so no time-out counts. An endpoint that does not answer holds up nobody else: each has a bound of its own, and a dial that takes long gives its place up.
final class DialThrottle: @unchecked Sendable {
  // Sync: used on `eventLoop` alone; init only stores.
  private let eventLoop: any EventLoop
  private var endpoints: [String: Endpoint] = [:]

  private struct Endpoint {
    var pace = DialConcurrency()
    var waiting: [@Sendable (Place) -> Void] = []
    var nextWaiting = 0
  }

  /// One dial's place among those that go on.
  final class Place: @unchecked Sendable {
    // Sync: used on one event loop alone.
    private let pacing: DialThrottle
    private let endpoint: String
    private var timer: Scheduled<Void>?

    fileprivate init(_ pacing: DialThrottle, endpoint: String) {
      self.pacing = pacing
      self.endpoint = endpoint
      timer = pacing.eventLoop.scheduleTask(in: DialThrottle.patience) { self.ended(isOpen: false) }
    }

    /// The connection is open, or will never be. Only the first call counts.
    func ended(isOpen: Bool) {
      guard let timer else { return }
      timer.cancel()
      self.timer = nil
      pacing.ended(endpoint, isOpen: isOpen)
    }
  }

  /// After so long a dial no longer keeps others waiting.
  private static let patience = TimeAmount.seconds(2)

  init(_ eventLoop: any EventLoop) {
    self.eventLoop = eventLoop
  }

  /// Runs `dial` now, or when one of those before it has completed.
  func begin(_ endpoint: String, _ dial: @escaping @Sendable (Place) -> Void) {
    endpoints[endpoint, default: Endpoint()].waiting.append(dial)
    goOn(endpoint)
  }

  private func ended(_ endpoint: String, isOpen: Bool) {
    endpoints[endpoint]?.pace.ended(isOpen: isOpen)
    goOn(endpoint)
  }

  private func goOn(_ name: String) {
    while let dial = takeNext(name) { dial(Place(self, endpoint: name)) }
    if endpoints[name]?.pace.isIdle == true { endpoints[name] = nil }
  }

  private func takeNext(_ name: String) -> (@Sendable (Place) -> Void)? {
    guard var endpoint = endpoints[name], endpoint.nextWaiting < endpoint.waiting.count, endpoint.pace.begin() else { return nil }
    let dial = endpoint.waiting[endpoint.nextWaiting]
    endpoint.nextWaiting += 1
    if endpoint.nextWaiting == endpoint.waiting.count {
      endpoint.waiting.removeAll()
      endpoint.nextWaiting = 0
    }
    endpoints[name] = endpoint
    return dial
  }
}
