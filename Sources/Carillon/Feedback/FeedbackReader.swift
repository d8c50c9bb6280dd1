internal import Foundation
package import PushTransport
internal import PushWire
internal import Synchronization

/// Reads a feedback service to its end over one link, and writes each entry before it lets the next
/// read happen.
package final class FeedbackReader: LinkDelegate {
  package typealias Ended = @Sendable (Result<Int, CarillonError>) -> Void

  private struct State {
    var decoder = FeedbackDecoder()
    var count = 0
    var outputProblem: String?
    var cancellation: CarillonError?
    var loop: (any Loop)?
    var link: (any Link)?
    var isPaused = false
    var ended: Ended?
  }

  private let dialer: any Dialer
  private let endpoint: Endpoint
  private let output: any FeedbackOutput
  private let state = Mutex(State())

  /// - Parameters:
  ///   - endpoint: of the service, for errors.
  ///   - output: gets the entries.
  package init(dialer: any Dialer, endpoint: Endpoint, output: any FeedbackOutput) {
    (self.dialer, self.endpoint, self.output) = (dialer, endpoint, output)
  }

  /// Reads the list to its end on a thread of its own. Returns how many entries it has.
  ///
  /// - Parameter notice: is called with each notice beside the entries, as a sentence.
  package func run(notice: (String) -> Void) async throws(CarillonError) -> Int {
    let loops = LoopGroup(threads: 1)
    let result = await withCheckedContinuation { continuation in
      start(on: loops.loops[0]) { continuation.resume(returning: $0) }
    }
    await loops.shutDown()
    if unusableCount > 0 { notice("\(unusableCount) entries had no usable token and were left out") }
    return try result.get()
  }

  /// Begins to read the list.
  ///
  /// - Parameter ended: called once, on the loop, with the number of entries.
  package func start(on loop: any Loop, ended: @escaping Ended) {
    state.withLock { state in
      state.ended = ended
      state.loop = loop
    }
    let link = dialer.dial(on: loop, delegate: self)
    // It may have opened and even closed by now.
    let isCancelled = state.withLock { state in
      if state.ended != nil { state.link = link }
      return state.cancellation != nil
    }
    if isCancelled { loop.execute { link.close() } }
  }

  /// Entries without a usable token, which are left out.
  package var unusableCount: Int { state.withLock { $0.decoder.unusableTupleCount } }

  /// Closes the connection: the end is this error, unless it has come before.
  func cancel(_ error: CarillonError) {
    let (loop, link) = state.withLock { state in
      state.cancellation = state.cancellation ?? error
      return (state.loop, state.link)
    }
    if let loop, let link { loop.execute { link.close() } }
  }

  /// The output has room again.
  func resume() {
    let (loop, link) = state.withLock { state in
      defer { state.isPaused = false }
      return (state.loop, state.isPaused ? state.link : nil)
    }
    if let loop, let link { loop.execute { link.setReading(true) } }
  }

  // MARK: LinkDelegate

  package func linkOpened(_ link: any Link) { state.withLock { $0.link = link } }
  package func link(_ link: any Link, isWritable: Bool) {}

  /// Nothing more is read before this returns.
  package func link(_ link: any Link, received bytes: UnsafeRawBufferPointer) {
    let (hasFailed, pauses) = state.withLock { state in
      for tuple in unsafe state.decoder.consume(bytes) where state.outputProblem == nil {
        state.outputProblem = output.write(tuple)
        if state.outputProblem == nil { state.count += 1 }
      }
      if state.outputProblem == nil { state.outputProblem = output.synchronise() }
      // Bytes that were decrypted before a pause come after it. Only ``resume()`` ends the pause.
      state.isPaused = state.isPaused || output.isFull
      return (state.outputProblem != nil, state.isPaused)
    }
    if hasFailed { return link.close() }
    if pauses { link.setReading(false) }
  }

  package func linkClosed(_ link: any Link, reason: LinkClosure) {
    let (ended, result) = state.withLock { state in
      defer {
        state.ended = nil
        state.link = nil
      }
      return (state.ended, ending(state, reason))
    }
    ended?(result)
  }

  private func ending(_ state: State, _ reason: LinkClosure) -> Result<Int, CarillonError> {
    let count = state.count
    func failure(_ code: CarillonError.ErrorCode, _ message: String) -> Result<Int, CarillonError> {
      .failure(CarillonError(code, message))
    }
    if let problem = state.outputProblem {
      return failure(.output, "The output cannot be written after \(count) entries: \(problem)")
    }
    if let cancellation = state.cancellation { return .failure(cancellation) }
    let sofar =
      count == 0 ? "" : count == 1 ? " after 1 entry, which is written" : " after \(count) entries, which are written"
    switch reason {
    case .byPeer, .byUs:
      guard state.decoder.isAtTupleBoundary else {
        return failure(.gateway, "\(endpoint) closed in the middle of an entry\(sofar)")
      }
      return .success(count)
    case .truncated:
      // A list has no length: only close_notify says that this is all.
      return failure(
        .incomplete,
        "\(endpoint) ended the connection without closing TLS\(sofar); the list may have been cut off, so read "
          + "it again.")
    case .reset:
      return failure(
        .gateway,
        "The connection to \(endpoint) was reset\(sofar); the rest of the list was not received, so read it again")
    case .unreachable(let why): return failure(.gateway, "\(endpoint) cannot be reached: \(why)")
    case .handshakeFailed(let why): return failure(.gateway, "The TLS handshake with \(endpoint) failed: \(why)")
    case .credentialRefused(let why): return failure(.gateway, "\(endpoint) refused the certificate: \(why)")
    case .failed(let why): return failure(.gateway, "The connection to \(endpoint) broke\(sofar): \(why)")
    }
  }
}
