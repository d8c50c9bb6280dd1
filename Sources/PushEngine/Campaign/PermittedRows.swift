internal import PushTransport
internal import Synchronization

/// Says which rows of a file may be read, and what became of them before.
package protocol RowPermit: Sendable {
  /// Calls `give` with the entries of a chunk that may be read now, from an index on, until it
  /// returns false: there is no room.
  ///
  /// - Parameter isPaced: false: what is read is not sent.
  /// - Returns: the index of the first one that was not given, or passed over; nil: nothing more of
  ///   the file is wanted.
  func read(
    _ chunk: AudienceChunk, from index: Int, isPaced: Bool, _ give: (Int, RecoveredRun.Fate) -> Bool
  ) -> Int?
  /// Everything up to a line is in the journal.
  func recorded(through line: UInt64)
  /// - Parameter wake: looks again whether there is something to read.
  func attach(wake: @escaping @Sendable () -> Void)
}

/// Rows of a token file, from a mark on, as somebody permits them one by one: several processes
/// read the same file, and each row is sent by one of them.
package final class PermittedRows: AudienceSource {
  private struct State {
    let chunk: AudienceChunk
    var next = 0
    var isOver = false
  }

  private let file: AudienceFile
  private let permit: any RowPermit
  private let state: Mutex<State>
  private let signal = Mutex<ReaderSignal?>(nil)

  /// - Parameter payloadCapacity: as the chunks have it that are filled.
  package init(_ file: AudienceFile, permit: any RowPermit, payloadCapacity: Int) {
    (self.file, self.permit) = (file, permit)
    state = Mutex(State(chunk: AudienceChunk(payloadCapacity: payloadCapacity)))
    permit.attach { [weak self] in self?.signal.withLock { $0 }?.set() }
  }

  package func recorded(through line: UInt64) { permit.recorded(through: line) }

  package func attach(_ signal: ReaderSignal) { self.signal.withLock { $0 = signal } }

  package func fill(_ chunk: AudienceChunk) throws(AudienceError) -> AudienceSupply {
    try fill(chunk, isPaced: true)
  }

  package func fillUnpaced(_ chunk: AudienceChunk) throws(AudienceError) -> AudienceSupply {
    try fill(chunk, isPaced: false)
  }

  private func fill(_ chunk: AudienceChunk, isPaced: Bool) throws(AudienceError) -> AudienceSupply {
    chunk.removeAll()
    return try state.withLock { state throws(AudienceError) in
      while !state.isOver {
        if state.next == state.chunk.count {
          switch try file.fill(state.chunk) {
          case .entries: state.next = 0
          case .end:
            state.isOver = true
            continue
          case let other:
            state.next = state.chunk.count
            return other
          }
        }
        let rows = state.chunk
        chunk.mark = rows.mark
        guard
          let next = permit.read(
            rows, from: state.next, isPaced: isPaced,
            { index, fate in
              // A chunk has one fate.
              guard chunk.count == 0 || chunk.fate == fate, chunk.append(rows[index], of: rows) else { return false }
              chunk.fate = fate
              return true
            })
        else {
          state.isOver = true
          break
        }
        state.next = next
        if chunk.count > 0 { return .entries }
        if next < rows.count { return .waiting }
      }
      return chunk.count > 0 ? .entries : .end
    }
  }
}

extension AudienceChunk {
  /// Adds an entry of another chunk as it is. False: there is no room for it.
  fileprivate func append(_ entry: AudienceEntry, of other: AudienceChunk) -> Bool {
    guard hasRoom(payloadByteCount: Int(entry.payloadByteCount)) else { return false }
    unsafe append(
      line: entry.line, token: other.token(of: entry), headers: other.ownHeaders(of: entry),
      payload: other.payload(of: entry))
    mark(lastAs: entry.kind)
    return true
  }
}
