internal import Foundation
package import PushTransport
internal import PushWire
internal import Synchronization

/// Reads a feedback service to its end over one link, and writes each entry before it lets the next
/// read happen.
package final class FeedbackReader: LinkDelegate {
  private struct State {
    var decoder = FeedbackDecoder()
    var count = 0
    var outputProblem: String?
    var ending: CheckedContinuation<LinkClosure, Never>?
  }

  private let dialer: any Dialer
  private let output: any FeedbackOutput
  private let state = Mutex(State())

  package init(dialer: any Dialer, output: any FeedbackOutput) {
    self.dialer = dialer
    self.output = output
  }

  /// Reads the list to its end. Returns how many entries it has.
  ///
  /// - Parameter notice: is called with what there is to tell beside the entries, as a sentence.
  package func run(_ endpoint: Endpoint, notice: (String) -> Void) async throws(CarillonError) -> Int {
    let loops = LoopGroup(threads: 1)
    let reason = await withCheckedContinuation { continuation in
      state.withLock { $0.ending = continuation }
      // The loop owns the link while it is open.
      _ = dialer.dial(on: loops.loops[0], delegate: self)
    }
    await loops.shutDown()
    let (count, isWhole, skipped, problem) = state.withLock {
      ($0.count, $0.decoder.isAtTupleBoundary, $0.decoder.unusableTupleCount, $0.outputProblem)
    }
    if skipped > 0 { notice("\(skipped) entries had no usable token and were left out") }
    if let problem { throw CarillonError(.output, "The output cannot be written after \(count) entries: \(problem)") }
    let sofar =
      count == 0 ? "" : count == 1 ? " after 1 entry, which is written" : " after \(count) entries, which are written"
    switch reason {
    case .byPeer, .byUs:
      guard isWhole else { throw CarillonError(.gateway, "\(endpoint) closed in the middle of an entry\(sofar)") }
      return count
    case .truncated:
      // A list has no length: only close_notify says that this is all.
      throw CarillonError(
        .incomplete,
        "\(endpoint) ended the connection without closing TLS\(sofar); the list may have been cut off, so read "
          + "it again.")
    case .reset:
      throw CarillonError(
        .gateway,
        "The connection to \(endpoint) was reset\(sofar); what had not come yet is lost to the service, so try again")
    case .unreachable(let why): throw CarillonError(.gateway, "\(endpoint) cannot be reached: \(why)")
    case .handshakeFailed(let why): throw CarillonError(.gateway, "The TLS handshake with \(endpoint) failed: \(why)")
    case .credentialRefused(let why): throw CarillonError(.gateway, "\(endpoint) refused the certificate: \(why)")
    case .failed(let why): throw CarillonError(.gateway, "The connection to \(endpoint) broke\(sofar): \(why)")
    }
  }

  package func linkOpened(_ link: any Link) {}
  package func link(_ link: any Link, isWritable: Bool) {}

  /// Nothing more is read before this returns.
  package func link(_ link: any Link, received bytes: UnsafeRawBufferPointer) {
    let hasFailed = state.withLock { state in
      for tuple in unsafe state.decoder.consume(bytes) where state.outputProblem == nil {
        state.outputProblem = output.write(tuple)
        if state.outputProblem == nil { state.count += 1 }
      }
      if state.outputProblem == nil { state.outputProblem = output.synchronise() }
      return state.outputProblem != nil
    }
    if hasFailed { link.close() }
  }

  package func linkClosed(_ link: any Link, reason: LinkClosure) {
    let ending = state.withLock { state in
      defer { state.ending = nil }
      return state.ending
    }
    ending?.resume(returning: reason)
  }
}
