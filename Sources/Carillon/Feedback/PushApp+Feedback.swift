internal import Foundation
internal import Logging
internal import PushEngine
internal import PushTransport
internal import PushWire

extension PushApp {
  /// Devices that no longer have the app, as the feedback service of the binary protocol lists
  /// them.
  ///
  /// Each loop over it opens a connection with the app's credential, and ends when the service has
  /// sent its whole list. The service forgets what it has sent, so read the list to its end: when a
  /// loop is left early, up to about 20,000 entries that were read ahead are lost.
  ///
  /// ```swift
  /// for try await device in app.feedback(from: service) { try await forget(device.token) }
  /// ```
  ///
  /// The loop throws a ``CarillonError``: ``CarillonError/ErrorCode/gateway`` if the
  /// service cannot be reached or breaks off, ``CarillonError/ErrorCode/incomplete`` if it
  /// ends the connection without closing TLS, so that entries may be missing,
  /// ``CarillonError/ErrorCode/configuration`` if the app speaks HTTP/2, which has no such
  /// service (see ``goneDevices``), and ``CarillonError/ErrorCode/cancelled`` if the task
  /// is cancelled, the app removed or the deployment ended. Every entry that it yielded before is
  /// good.
  ///
  /// - Parameter service: where to connect. Default nil: the host of ``AppConfiguration/gateway``,
  ///   or Apple's feedback service for the environment (switched off in 2021), with the port 2196.
  public func feedback(
    from service: AppConfiguration.Gateway? = nil
  ) -> some AsyncSequence<GoneDevice, CarillonError> & Sendable {
    FeedbackSequence(app: self, service: service)
  }
}

private struct FeedbackSequence: AsyncSequence, AsyncIteratorProtocol, Sendable {
  let app: PushApp
  let service: AppConfiguration.Gateway?
  private var connection: FeedbackConnection?
  private var hasEnded = false

  init(app: PushApp, service: AppConfiguration.Gateway?) { (self.app, self.service) = (app, service) }

  func makeAsyncIterator() -> Self { self }

  mutating func next() async throws(CarillonError) -> PushApp.GoneDevice? { try await next(isolation: nil) }

  mutating func next(isolation actor: isolated (any Actor)?) async throws(CarillonError) -> PushApp.GoneDevice? {
    if hasEnded { return nil }
    do throws(CarillonError) {
      if connection == nil { connection = try await FeedbackConnection.open(app, service) }
      guard let tuple = try await connection?.next() else {
        hasEnded = true
        return nil
      }
      return PushApp.GoneDevice(
        token: DeviceToken(tuple.token), since: Date(timeIntervalSince1970: TimeInterval(tuple.timestamp)))
    } catch {
      hasEnded = true
      throw error
    }
  }
}

/// One connection to a feedback service. It is closed when the last reference is gone.
private final class FeedbackConnection: Sendable {
  private let reader: FeedbackReader
  private let buffer: FeedbackBuffer

  private init(_ reader: FeedbackReader, _ buffer: FeedbackBuffer) {
    (self.reader, self.buffer) = (reader, buffer)
  }

  deinit { reader.cancel(Self.cancelled) }

  private static var cancelled: CarillonError {
    CarillonError(.cancelled, "The task was cancelled before the feedback service's list had ended.")
  }

  static func open(
    _ app: PushApp, _ service: AppConfiguration.Gateway?
  ) async throws(CarillonError) -> FeedbackConnection {
    let (entry, core) = (app.entry, app.core)
    guard !entry.configuration.transport.isHTTP2 else {
      throw CarillonError(
        .configuration, "The app \"\(app.id)\" speaks HTTP/2, which has no feedback service: see its goneDevices.")
    }
    let runtime = try await core.runtime(of: entry, evenIfStopped: true)
    let endpoint = service?.endpoint ?? entry.configuration.feedbackOrDefault
    let buffer = FeedbackBuffer()
    let reader = FeedbackReader(dialer: entry.credential.dialer(to: endpoint), endpoint: endpoint, output: buffer)
    // A deployment that ends lets the list end first.
    let registered = runtime.runs.add(RunRegistry.Run(drain: {}, cancel: { reader.cancel(DeploymentCore.hasEnded) }))
    guard let registered else { throw DeploymentCore.hasEnded }
    reader.start(on: runtime.engine.loop) { [weak reader] result in
      if let count = reader?.unusableCount, count > 0 {
        core.logger.warning(
          "feedback entries without a usable token", metadata: ["app": "\(entry.id)", "count": "\(count)"])
      }
      buffer.finish(result)
      runtime.runs.remove(registered)
    }
    return FeedbackConnection(reader, buffer)
  }

  /// The next entry; nil at the end of the list.
  func next() async throws(CarillonError) -> FeedbackTuple? {
    while true {
      if Task.isCancelled { throw Self.cancelled }
      switch buffer.take() {
      case .tuple(let tuple, let hasRoom):
        if hasRoom { reader.resume() }
        return tuple
      case .ending(let result):
        _ = try result.get()
        return nil
      case .nothing: await buffer.wait()
      }
    }
  }
}
