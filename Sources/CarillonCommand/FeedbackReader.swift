internal import Carillon
internal import Foundation
internal import PushServer
internal import PushTransport
internal import PushWire
internal import Synchronization

/// Reads a feedback service to its end over one link, and writes each entry before it lets the next read happen.
final class FeedbackReader: LinkDelegate {
  private struct State {
    var decoder = FeedbackDecoder()
    var count = 0
    var outputProblem: String?
    var ending: CheckedContinuation<LinkClosure, Never>?
  }

  private let dialer: any Dialer
  private let output: FeedbackOutput
  private let state = Mutex(State())

  init(dialer: any Dialer, output: FeedbackOutput) {
    self.dialer = dialer
    self.output = output
  }

  /// Returns how many entries were read.
  func run(_ endpoint: Endpoint) async throws -> Int {
    let loops = LoopGroup(threads: 1)
    let reason = await withCheckedContinuation { continuation in
      state.withLock { $0.ending = continuation }
      // The loop owns the link while it is open.
      _ = dialer.dial(on: loops.loops[0], delegate: self)
    }
    await loops.shutDown()
    let (count, isWhole, skipped, problem) = state.withLock { ($0.count, $0.decoder.isAtTupleBoundary, $0.decoder.unusableTupleCount, $0.outputProblem) }
    if skipped > 0 { StandardStream.error.writeLine("carillon: \(skipped) entries had no usable token and were left out.") }
    if let problem { throw CommandFailure.couldNotRun("The output cannot be written after \(count) entries: \(problem)") }
    let sofar =
      count == 0 ? "" : count == 1 ? " after 1 entry, which is written" : " after \(count) entries, which are written"
    switch reason {
    case .byPeer, .byUs:
      guard isWhole else { throw CommandFailure.couldNotRun("\(endpoint) closed in the middle of an entry\(sofar)") }
      return count
    case .truncated:
      // A list has no length: only close_notify says that this is all.
      throw CommandFailure(
        status: .findings,
        sentence:
          "\(endpoint) ended the connection without closing TLS\(sofar); the list may have been cut off, so read it again."
      )
    case .reset: throw CommandFailure.couldNotRun("The connection to \(endpoint) was reset\(sofar); what had not come yet is lost to the service, so try again")
    case .unreachable(let why): throw CommandFailure.couldNotRun("\(endpoint) cannot be reached: \(why)")
    case .handshakeFailed(let why): throw CommandFailure.couldNotRun("The TLS handshake with \(endpoint) failed: \(why)")
    case .credentialRefused(let why): throw CommandFailure.couldNotRun("\(endpoint) refused the certificate: \(why)")
    case .failed(let why): throw CommandFailure.couldNotRun("The connection to \(endpoint) broke\(sofar): \(why)")
    }
  }

  func linkOpened(_ link: any Link) {}
  func link(_ link: any Link, isWritable: Bool) {}

  /// Nothing more is read before this returns.
  func link(_ link: any Link, received bytes: UnsafeRawBufferPointer) {
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

  func linkClosed(_ link: any Link, reason: LinkClosure) {
    let ending = state.withLock { state in
      defer { state.ending = nil }
      return state.ending
    }
    ending?.resume(returning: reason)
  }
}

/// Where feedback goes: each entry in a write of its own, and in a file on the disk before the next read.
final class FeedbackOutput: Sendable {
  private let stream: StandardStream
  private let descriptor: Int32?
  private let json: Bool

  /// - Parameter path: a file to append to; nil: standard output.
  init(path: String?, json: Bool, flag: String = "--output") throws {
    self.json = json
    var isNew = true
    if let path {
      let opened: Int32
      do throws(OutputFile.Problem) {
        opened = try OutputFile.open(path, flags: O_APPEND)
      } catch {
        throw CommandFailure.usage("\(flag): \(path) cannot be written: \(error.text)")
      }
      descriptor = opened
      stream = StandardStream(opened)
      isNew = lseek(opened, 0, SEEK_END) <= 0
    } else {
      descriptor = nil
      stream = .output
    }
    if isNew, !json, let problem = stream.write(Array("timestamp,token\n".utf8)) {
      throw CommandFailure.couldNotRun("The output cannot be written: \(problem)")
    }
  }

  deinit { if let descriptor { close(descriptor) } }

  /// Returns the system's reason if it fails.
  func write(_ tuple: FeedbackTuple) -> String? {
    let line = json ? "{\"timestamp\":\(tuple.timestamp),\"token\":\"\(tuple.token)\"}\n" : "\(tuple.timestamp),\(tuple.token)\n"
    return write(line)
  }

  /// The same for a row as it stands.
  func write(_ row: String) -> String? { stream.write(Array(row.utf8)) }

  /// Puts what was written onto the disk, if it goes to one. Returns the system's reason if that fails.
  func synchronise() -> String? {
    let code = sync()
    return code == 0 ? nil : unsafe String(cString: strerror(code))
  }

  /// The same, with the `errno`; 0 for success.
  func sync() -> Int32 { descriptor.map(OutputFile.sync) ?? 0 }
}
