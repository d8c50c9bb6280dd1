internal import Foundation
internal import HTTPTypes
internal import PushEngine
package import PushStore
internal import Synchronization

/// Uploaded audiences as files on this machine. Where nodes share a store, it has their bytes: a
/// node fetches what another one has taken in.
package final class AudienceFiles: Sendable {
  private struct State {
    /// What files have been fetched for.
    var fetched: [StoredUUID: StoredUpload] = [:]
    var isFetching: Set<StoredUUID> = []
    var marks: [StoredUUID: RowMarks] = [:]
  }

  package let spool: CampaignSpool
  private let store: any Store
  private let clock: any ServiceClock
  private let state = Mutex(State())

  private static let pause = Duration.milliseconds(20)

  package init(spool: CampaignSpool, store: any Store, clock: any ServiceClock) {
    (self.spool, self.store, self.clock) = (spool, store, clock)
  }

  /// Whether the store has the bytes.
  package var areShared: Bool { store.ledger != nil }

  /// Whether a campaign's members are written down, before or while they are sent to. Of an upload
  /// that one process sends they need not be.
  func areMembersKept(of plan: CampaignPlan) -> Bool { plan.source == .devices || areShared && !plan.isDryRun }

  // MARK: Fetching

  /// The file has all that was uploaded when this returns.
  ///
  /// - Throws: ``StoreError``, and ``Problem`` with 507, or with 503 if the store has not all.
  package func fetch(_ campaign: CampaignHead) async throws {
    guard let ledger = store.ledger, campaign.upload.byteCount > 0 else { return }
    let id = campaign.id
    while true {
      // It may have been removed.
      let isWhole = byteCount(id) >= campaign.upload.byteCount
      let (isDone, mayFetch) = state.withLock { state in
        if isWhole, state.fetched[id] == campaign.upload { return (true, false) }
        return (false, state.isFetching.insert(id).inserted)
      }
      if isDone { return }
      guard mayFetch else {
        // One after the other writes the file.
        try await clock.sleep(for: Self.pause)
        continue
      }
      defer { state.withLock { _ = $0.isFetching.remove(id) } }
      try await fetch(campaign, ledger)
      state.withLock { $0.fetched[id] = campaign.upload }
      return
    }
  }

  /// Another upload begins here, or the campaign is gone.
  package func forget(_ id: StoredUUID) {
    state.withLock { ($0.fetched[id], $0.marks[id]) = (nil, nil) }
  }

  private func byteCount(_ id: StoredUUID) -> Int64 {
    let attributes = try? FileManager.default.attributesOfItem(atPath: spool.audience(id))
    return (attributes?[.size] as? NSNumber)?.int64Value ?? 0
  }

  private func fetch(_ campaign: CampaignHead, _ ledger: any Ledger) async throws {
    let id = campaign.id
    var pieces = try await clock.retrying { () throws(StoreError) in try await ledger.audiencePieces(of: id) }
    if pieces.last?.end ?? 0 < campaign.upload.byteCount {
      try await give(campaign, behind: pieces.last?.end ?? 0, ledger)
      pieces = try await clock.retrying { () throws(StoreError) in try await ledger.audiencePieces(of: id) }
    }
    let (size, known) = (byteCount(id), known(id))
    var count = 0
    while count < min(known.count, pieces.count), known[count] == pieces[count], pieces[count].end <= size {
      count += 1
    }
    guard count < pieces.count else { return }
    try spool.make(id)
    let file = try SpoolFile(path: spool.audience(id), keeping: count == 0 ? 0 : pieces[count - 1].end)
    for piece in pieces[count...] {
      let bytes = try await clock.retrying { () throws(StoreError) in try await ledger.bytes(of: piece, of: id) }
      guard let bytes else { throw Self.replaced }
      try file.append(bytes)
    }
    try file.sync()
    try note(pieces, of: id)
  }

  private static let replaced = Problem(.serviceUnavailable, "Replaced", "Another upload has replaced the audience.")

  /// What this machine alone has comes into the store: the deployment had no other machine before.
  private func give(_ campaign: CampaignHead, behind start: Int64, _ ledger: any Ledger) async throws {
    var start = start
    while start < campaign.upload.byteCount {
      let portion = try pieces(
        of: campaign.id, from: start, to: min(start + Int64(AudiencePiece.byteCountLimit), campaign.upload.byteCount))
      guard let end = portion.last?.head.end, let record = try await store.campaign(campaign.id),
        record.upload.byteCount == campaign.upload.byteCount
      else {
        throw Problem(
          .serviceUnavailable, "Not in the store",
          "The store has \(start) of the audience's \(campaign.upload.byteCount) bytes, and this node no more.",
          action: "Upload the audience again.")
      }
      if try await ledger.update(record, from: record.version, adding: portion) { start = end }
    }
  }

  // MARK: Adding

  /// The bytes of a file as pieces, as far as it has them.
  ///
  /// - Throws: ``Problem`` with 507.
  package func pieces(of id: StoredUUID, from start: Int64, to end: Int64) throws -> [AudiencePiece] {
    let path = spool.audience(id)
    do {
      guard let file = FileHandle(forReadingAtPath: path) else { return [] }
      defer { try? file.close() }
      try file.seek(toOffset: UInt64(start))
      var (pieces, start) = ([AudiencePiece](), start)
      while start < end {
        let count = min(Int(end - start), AudiencePiece.byteCountLimit)
        guard let bytes = try file.read(upToCount: count), bytes.count == count else { break }
        pieces.append(AudiencePiece(start: start, id: .random(in: .min ... .max), bytes: Array(bytes)))
        start += Int64(count)
      }
      return pieces
    } catch { throw CampaignSpool.problem(path, error) }
  }

  /// The store has pieces that were made of the file here.
  package func added(_ pieces: [AudiencePiece], to id: StoredUUID) throws {
    guard let first = pieces.first else { return }
    try note(known(id).filter { $0.start < first.start } + pieces.map(\.head), of: id)
  }

  // MARK: What the file has

  /// The pieces that the file is made of, as far as that was noted.
  private func known(_ id: StoredUUID) -> [AudiencePiece.Head] {
    guard let text = try? String(contentsOfFile: spool.pieces(id), encoding: .utf8) else { return [] }
    return text.split(separator: "\n").compactMap { line in
      let numbers = line.split(separator: " ").compactMap { Int64($0) }
      return numbers.count == 3
        ? AudiencePiece.Head(start: numbers[0], id: numbers[1], byteCount: Int(numbers[2])) : nil
    }
  }

  private func note(_ pieces: [AudiencePiece.Head], of id: StoredUUID) throws {
    let path = spool.pieces(id)
    let text = pieces.map { "\($0.start) \($0.id) \($0.byteCount)\n" }.joined()
    do { try Data(text.utf8).write(to: URL(fileURLWithPath: path), options: .atomic) } catch {
      throw CampaignSpool.problem(path, error)
    }
  }

  // MARK: Rows

  /// The file, and a mark at the row of a line or before it.
  func rows(_ record: StoredCampaign, at line: Int64) async throws -> (file: KeptAudience, mark: AudienceMark) {
    let file = spool.audience(of: record)
    let marks = try state.withLock { state in
      if let marks = state.marks[record.id] { return marks }
      let marks = RowMarks(try AudienceFile(file))
      state.marks[record.id] = marks
      return marks
    }
    return (file, try await marks.mark(at: UInt64(clamping: line)))
  }
}

/// Marks in a token file about a thousand rows apart, as far as it was read, so that it can be read
/// from any row on.
private final class RowMarks: Sendable {
  private struct State {
    let chunk = AudienceChunk()
    var marks: [AudienceMark] = []
    /// Of the last row that was read.
    var line: UInt64 = 0
    var isAtEnd = false
  }

  private let file: AudienceFile
  private let state = Mutex(State())

  init(_ file: AudienceFile) { self.file = file }

  func mark(at line: UInt64) async throws -> AudienceMark {
    while true {
      let mark = try state.withLock { state throws(AudienceError) -> AudienceMark? in
        guard state.line < line, !state.isAtEnd else {
          let index = state.marks.lastIndex { $0.line <= line } ?? 0
          return state.marks.isEmpty ? AudienceMark(offset: 0, line: 1) : state.marks[index]
        }
        switch try file.fill(state.chunk) {
        case .entries:
          state.marks.append(state.chunk.mark)
          state.line = state.chunk[state.chunk.count - 1].line
        case .end: state.isAtEnd = true
        case .nothingYet, .nothingFor, .waiting: break
        }
        return nil
      }
      if let mark { return mark }
      // A large file leaves the thread to others.
      await Task.yield()
    }
  }
}
