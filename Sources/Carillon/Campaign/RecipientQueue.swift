package import PushEngine
internal import PushTransport
internal import PushWire
internal import Synchronization

/// The audience of a campaign whose recipients come from an `AsyncSequence`: one task puts them in,
/// and waits while the campaign is behind; its reader takes them out.
package final class RecipientQueue: AudienceSource {
  private enum Content {
    case payload([UInt8])
    case tooLarge, valueMissing, collapseIDUnusable
  }

  private struct Entry {
    var recipient: Recipient
    var content: Content
  }

  private struct State {
    /// Those before `next` have been read.
    var entries: [Entry] = []
    var next = 0
    var nextLine: UInt64
    var isFinished = false
    var problem: AudienceError?
    var signal: ReaderSignal?
  }

  private let state: Mutex<State>
  private let template: PayloadTemplate?
  private let byteLimit: Int
  private let isHTTP2: Bool
  /// Set when there is room, and when the queue is closed.
  private let room = ReaderSignal()

  /// The most that may wait: as many as the reader takes at once.
  private static let limit = AudienceChunk.defaultEntryLimit

  /// - Parameters:
  ///   - template: the notification, if it has placeholders.
  ///   - byteLimit: of one payload.
  ///   - firstLine: of the first recipient.
  init(template: PayloadTemplate?, byteLimit: Int, isHTTP2: Bool, firstLine: UInt64) {
    (self.template, self.byteLimit, self.isHTTP2) = (template, byteLimit, isHTTP2)
    state = Mutex(State(nextLine: firstLine))
  }

  // MARK: The task that fills it

  /// Puts in what the sequence yields until it ends, fails, or the task is cancelled: then without
  /// an end.
  func fill<Recipients: AsyncSequence>(from recipients: Recipients) async where Recipients.Element == Recipient {
    do {
      for try await recipient in recipients {
        guard await add(recipient) else { return }
      }
      // Sequences end when their task is cancelled. That is not the end of the recipients: the
      // campaign is cancelled too, and the journal must not call it complete.
      if !Task.isCancelled { finish(nil) }
    } catch {
      if !Task.isCancelled { finish(AudienceError(path: nil, problem: .cannotRead("\(error)"))) }
    }
  }

  /// Waits for room. False once the task is cancelled.
  private func add(_ recipient: Recipient) async -> Bool {
    let entry = Entry(recipient: recipient, content: content(for: recipient))
    return await room.retry {
      let (isTaken, signal) = state.withLock { state -> (Bool, ReaderSignal?) in
        guard state.entries.count - state.next < Self.limit else { return (false, nil) }
        state.entries.append(entry)
        return (true, state.signal)
      }
      signal?.set()
      return isTaken
    }
  }

  /// Nothing more comes.
  func finish(_ problem: AudienceError?) {
    let signal = state.withLock { state in
      state.isFinished = true
      state.problem = problem
      return state.signal
    }
    signal?.set()
  }

  private func content(for recipient: Recipient) -> Content {
    if isHTTP2, let collapseID = recipient.collapseID, ProviderHeaders.check(collapseIdentifier: collapseID) != nil {
      return .collapseIDUnusable
    }
    guard let template else { return .payload([]) }
    guard let payload = template.render({ recipient.values[$0] }) else { return .valueMissing }
    return payload.count > byteLimit ? .tooLarge : .payload(payload)
  }

  // MARK: AudienceSource

  package func attach(_ signal: ReaderSignal) { state.withLock { $0.signal = signal } }

  package func fill(_ chunk: AudienceChunk) throws(AudienceError) -> AudienceSupply {
    chunk.removeAll()
    let (supply, problem) = state.withLock { state -> (AudienceSupply, AudienceError?) in
      while state.next < state.entries.count, take(state.entries[state.next], line: state.nextLine, into: chunk) {
        state.next += 1
        state.nextLine += 1
      }
      if state.next == state.entries.count {
        state.entries.removeAll(keepingCapacity: true)
        state.next = 0
      }
      if chunk.count > 0 { return (.entries, nil) }
      return state.isFinished ? (.end, state.problem) : (.waiting, nil)
    }
    room.set()
    if let problem { throw problem }
    return supply
  }

  private func take(_ entry: Entry, line: UInt64, into chunk: AudienceChunk) -> Bool {
    let token = entry.recipient.token.wire
    let payload: [UInt8]
    switch entry.content {
    case .payload(let bytes): payload = bytes
    case .tooLarge, .valueMissing, .collapseIDUnusable: payload = []
    }
    guard chunk.hasRoom(payloadByteCount: payload.count) else { return false }
    if chunk.count == 0 { chunk.mark = AudienceMark(offset: line - 1, line: line) }
    switch entry.content {
    case .payload:
      chunk.append(
        line: line, token: token, payload: payload,
        identifier: isHTTP2 ? entry.recipient.id.map(APNSIdentifier.init(uuid:)) : nil,
        collapseIdentifier: isHTTP2 ? entry.recipient.collapseID : nil)
    case .tooLarge: chunk.appendUnusable(line: line, token: token, .payloadTooLarge)
    case .valueMissing: chunk.appendUnusable(line: line, token: token, .malformedRow)
    case .collapseIDUnusable: chunk.appendUnusable(line: line, token: token, .malformedCollapseIdentifier)
    }
    return true
  }
}
