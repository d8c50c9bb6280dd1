internal import NIOCore
internal import PushWire

/// Limits how many dials to one endpoint an event loop has under way at a time, by how fast they
/// complete.
///
/// When a thousand apps connect at once, their handshakes would otherwise delay each other on both
/// sides until all of them time out. A waiting dial has not begun, so its time-out does not run.
/// Each endpoint has its own limit, and a slow dial releases its slot, so an endpoint that does not
/// answer delays no other.
final class DialThrottle: @unchecked Sendable {
  // Sync: used on `eventLoop` only; init only stores.
  private let eventLoop: any EventLoop
  private var endpoints: [String: Endpoint] = [:]

  private struct Endpoint {
    var pace = DialConcurrency()
    var waiting: [@Sendable (Place) -> Void] = []
    var nextWaiting = 0
  }

  /// One dial's place among those under way.
  final class Place: @unchecked Sendable {
    // Sync: used on one event loop only.
    private let pacing: DialThrottle
    private let endpoint: String
    private var timer: Scheduled<Void>?

    fileprivate init(_ pacing: DialThrottle, endpoint: String) {
      (self.pacing, self.endpoint) = (pacing, endpoint)
      timer = pacing.eventLoop.scheduleTask(in: DialThrottle.slotLimit) { self.ended(isOpen: false) }
    }

    /// The connection is open, or will never be. Only the first call has an effect.
    func ended(isOpen: Bool) {
      guard let timer else { return }
      timer.cancel()
      self.timer = nil
      pacing.ended(endpoint, isOpen: isOpen)
    }
  }

  /// A dial slower than this releases its slot.
  private static let slotLimit = TimeAmount.seconds(2)

  init(_ eventLoop: any EventLoop) { self.eventLoop = eventLoop }

  /// Runs `dial` now, or when an earlier dial to the same endpoint has completed.
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
    guard var endpoint = endpoints[name], endpoint.nextWaiting < endpoint.waiting.count, endpoint.pace.begin() else {
      return nil
    }
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
