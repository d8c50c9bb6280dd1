package import PushWire
internal import Synchronization

/// An audience that is read in pages, such as the devices of a store: one page is sent while the
/// next one is read, and no more is held.
///
/// An entry's line is its key, which never changes. So a resumed campaign continues behind the last
/// key that was read, whatever was added or removed meanwhile.
package final class PagedAudience<Entry: Sendable>: AudienceSource {
  /// Reads entries behind a key, in order, up to a limit. Also returns the key behind which the
  /// next ones are; nil at the end.
  package typealias Pages = @Sendable (_ key: Int64, _ limit: Int) async throws -> (entries: [Entry], next: Int64?)

  /// Puts entries of a page into a chunk, from an index on, as far as there is room and they may be
  /// sent. Returns the index of the first one that was not put there.
  ///
  /// `isPaced` is false if nothing of it is sent any more.
  package typealias Taking = @Sendable (_ page: [Entry], _ index: Int, _ chunk: AudienceChunk, _ isPaced: Bool) -> Int

  private struct State {
    var page: [Entry] = []
    /// The index of the first entry of the page that was not read.
    var next = 0
    /// The page after it.
    var following: [Entry]?
    var isFinished = false
    var problem: String?
    var signal: ReaderSignal?
  }

  private let firstKey: Int64
  private let pageLimit: Int
  private let pages: Pages
  private let pause: @Sendable () async -> Void
  private let take: Taking
  private let noteRecorded: @Sendable (_ key: Int64) -> Void
  private let state = Mutex(State())
  /// Set when another page may be read.
  private let room = ReaderSignal()

  /// So that a store that is busy for a moment ends no campaign.
  private let attemptLimit = 5

  /// - Parameters:
  ///   - key: of the last entry that was read before; 0: none.
  ///   - pageLimit: entries of a page.
  ///   - pause: between a page that could not be read and the next attempt.
  ///   - recorded: gets the last key up to which the journal has everything.
  package init(
    after key: Int64, pageLimit: Int = 4096, pages: @escaping Pages,
    pause: @escaping @Sendable () async -> Void, recorded: @escaping @Sendable (_ key: Int64) -> Void = { _ in },
    take: @escaping Taking
  ) {
    firstKey = key
    noteRecorded = recorded
    (self.pageLimit, self.pages, self.pause, self.take) = (pageLimit, pages, pause, take)
  }

  /// Reads pages until the end, or until the task is cancelled.
  package func feed() async {
    var key = firstKey
    var failureCount = 0
    while !Task.isCancelled {
      do {
        let page = try await pages(key, pageLimit)
        failureCount = 0
        if !page.entries.isEmpty { guard await put(page.entries) else { return } }
        guard let next = page.next else { return finish(nil) }
        key = next
      } catch {
        failureCount += 1
        guard failureCount < attemptLimit else { return finish("\(error)") }
        await pause()
      }
    }
  }

  /// False once the task is cancelled.
  private func put(_ page: [Entry]) async -> Bool {
    await room.retry {
      let (isTaken, signal) = state.withLock { state -> (Bool, ReaderSignal?) in
        guard state.following == nil else { return (false, nil) }
        state.following = page
        return (true, state.signal)
      }
      signal?.set()
      return isTaken
    }
  }

  private func finish(_ problem: String?) {
    // The end of the task is not the end of the audience: the journal must not call it complete.
    guard !Task.isCancelled else { return }
    let signal = state.withLock { state in
      state.isFinished = true
      state.problem = problem
      return state.signal
    }
    signal?.set()
  }

  // MARK: AudienceSource

  package func attach(_ signal: ReaderSignal) { state.withLock { $0.signal = signal } }

  package func recorded(through line: UInt64) { noteRecorded(Int64(clamping: line)) }

  package func fill(_ chunk: AudienceChunk) throws(AudienceError) -> AudienceSupply {
    try fill(chunk, isPaced: true)
  }

  package func fillUnpaced(_ chunk: AudienceChunk) throws(AudienceError) -> AudienceSupply {
    try fill(chunk, isPaced: false)
  }

  /// What could not be read before may be readable now.
  package func wake() { state.withLock { $0.signal }?.set() }

  private func fill(_ chunk: AudienceChunk, isPaced: Bool) throws(AudienceError) -> AudienceSupply {
    chunk.removeAll()
    let (supply, problem, hasRoom) = state.withLock { state -> (AudienceSupply, String?, Bool) in
      var hasRoom = false
      if state.next == state.page.count, let following = state.following {
        (state.page, state.next, state.following) = (following, 0, nil)
        hasRoom = true
      }
      state.next = take(state.page, state.next, chunk, isPaced)
      if chunk.count > 0 { return (.entries, nil, hasRoom) }
      let isOver = state.isFinished && state.following == nil && state.next == state.page.count
      return isOver ? (.end, state.problem, hasRoom) : (.waiting, nil, hasRoom)
    }
    if hasRoom { room.set() }
    if let problem { throw AudienceError(path: nil, problem: .cannotRead(problem)) }
    return supply
  }
}

extension AudienceChunk {
  /// Adds an entry whose line is its key. False: there is no room for it.
  ///
  /// - Parameters:
  ///   - token: nil: nothing can be sent to it any more, so that it is suppressed.
  ///   - kind: ready, or why nothing must be sent to it.
  package func append(key: Int64, token: TokenBytes?, payload: [UInt8], kind: AudienceEntry.Kind) -> Bool {
    guard hasRoom(payloadByteCount: payload.count) else { return false }
    let line = UInt64(clamping: key)
    if count == 0 { mark = AudienceMark(offset: line - 1, line: line) }
    if let token, kind == .ready {
      append(line: line, token: token, payload: payload)
    } else {
      appendUnusable(line: line, token: token, kind == .ready ? .suppressed : kind)
    }
    return true
  }
}
