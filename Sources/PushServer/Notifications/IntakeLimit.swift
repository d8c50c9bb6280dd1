internal import Carillon
internal import HTTPTypes
internal import PushService
internal import PushWire
internal import Synchronization

/// Whether the service takes anything in.
final class IntakeLimit: Sendable {
  /// By app: the bytes of memory that notifications may take that no connection has taken.
  private let queueByteCount: @Sendable (String) -> Int
  /// By app: whether the store keeps what is taken in, so that other nodes can send it.
  let isShared: @Sendable (String) -> Bool
  /// False once the service ends: nothing is taken in any more.
  let isOpen: @Sendable () -> Bool
  /// Others that share the store take in instead of this one.
  private let isDraining: @Sendable () -> Bool
  /// Why the journal is not written any more; nil while it is.
  private let journalFailure: @Sendable () -> String?
  /// By app: what was admitted and is not in its queue yet.
  private let reserved = Mutex<[String: Int]>([:])

  init(
    queueByteCount: @escaping @Sendable (String) -> Int,
    isShared: @escaping @Sendable (String) -> Bool = { _ in false }, isOpen: @escaping @Sendable () -> Bool,
    isDraining: @escaping @Sendable () -> Bool = { false }, journalFailure: @escaping @Sendable () -> String?
  ) {
    (self.queueByteCount, self.isOpen, self.isDraining) = (queueByteCount, isOpen, isDraining)
    self.isShared = isShared
    self.journalFailure = journalFailure
  }

  /// Room in an app's queue, until the last reference is gone or it is released.
  final class Room: Sendable {
    private let limit: IntakeLimit
    private let app: String
    private let byteCount: Mutex<Int>

    fileprivate init(_ limit: IntakeLimit, _ app: String, _ byteCount: Int) {
      (self.limit, self.app) = (limit, app)
      self.byteCount = Mutex(byteCount)
    }

    /// What it was for is in the queue, and counts there.
    func release() { limit.give(byteCount.withLock { exchange(&$0, with: 0) }, app) }

    deinit { release() }
  }

  /// To be asked before a body is read.
  ///
  /// - Throws: ``Problem`` with 429, 503 or 507. Nothing was taken in then.
  func demandRoom(_ app: PushApp) throws { try demand(app, reservedByteCount: reserved.withLock { $0[app.id] ?? 0 }) }

  /// To be asked when a body was read. What it takes counts for others at once, although it is not
  /// in the queue yet. A queue that has any room takes one more body, however large.
  ///
  /// - Throws: as ``demandRoom(_:)``.
  func reserve(_ byteCount: Int, _ app: PushApp) throws -> Room {
    try reserved.withLock { reserved in
      try demand(app, reservedByteCount: reserved[app.id] ?? 0)
      reserved[app.id, default: 0] += byteCount
    }
    return Room(self, app.id, byteCount)
  }

  private func give(_ byteCount: Int, _ app: String) {
    guard byteCount > 0 else { return }
    reserved.withLock { reserved in
      let left = (reserved[app] ?? 0) - byteCount
      reserved[app] = left > 0 ? left : nil
    }
  }

  /// - Throws: ``Problem`` with 503: nothing new is begun here.
  func demandOpen() throws {
    guard isOpen() else { throw Problem.unavailable("The service is ending.", retryAfter: 30) }
    guard !isDraining() else {
      var problem = Problem.unavailable("This node is being drained, and takes nothing new.")
      problem.action = "Send the request to another node: /readyz of each says whether it takes requests."
      throw problem
    }
  }

  private func demand(_ app: PushApp, reservedByteCount: Int) throws {
    try demandOpen()
    if let failure = journalFailure() {
      throw Problem(.init(code: 507, reasonPhrase: "Insufficient Storage"), "Not durable", failure.asSentence)
    }
    guard app.queuedByteCount + reservedByteCount < queueByteCount(app.id) else {
      throw Problem(
        .tooManyRequests, "Queue full", "The app's connections have no room, and its queue is full.",
        action: "Send more slowly, or see why the app's gateway takes nothing.", retryAfter: 1)
    }
  }
}
