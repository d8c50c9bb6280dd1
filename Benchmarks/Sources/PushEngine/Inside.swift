// Internal parts of the engine, made available to the benchmarks. This file is compiled into the
// engine's module, beside its own sources (Module is a link to them). So the compiler optimises the
// measured code as it does for the engine.
package import PushJournal
internal import PushTransport
internal import PushWire
internal import Synchronization

/// Fills one template for one row of an audience, repeatedly.
@safe package final class InsideTemplate {
  package static let fillCount = 10_000

  private let renderer: PayloadRenderer
  private var record: AudienceRecord
  private let row = Array("0123456789abcdef,Ada \"\"the first\"\" Lovelace,London".utf8)
  private let payload = UnsafeMutableRawBufferPointer.allocate(byteCount: 2048, alignment: 16)

  package init(_ template: String) throws {
    let columns = "token,name,city\n"
    let header = AudienceHeader(
      columns: ["token", "name", "city"], tokenColumn: 0, byteCount: columns.utf8.count, firstLine: 2)
    renderer = try PayloadTemplate(parsing: Array(template.utf8)).renderer(for: header, byteLimit: 2048)
    record = AudienceRecord(columnLimit: 3)
  }

  deinit { unsafe payload.deallocate() }

  /// False: a fill failed.
  package func fill() -> Bool {
    unsafe row.withUnsafeBytes { row in
      guard unsafe record.split(row) else { return false }
      var byteCount = 0
      for _ in 0..<Self.fillCount {
        guard case .rendered(let count) = unsafe renderer.render(record, of: row, into: payload) else { return false }
        byteCount += count
      }
      return byteCount > Self.fillCount
    }
  }
}

/// A campaign's chunks on their way through a deployment's journal, as `CampaignReader` and `Lane`
/// write them.
package final class InsideJournal {
  package static let chunkCount = 1024
  package static let notificationCount = 16 * chunkCount

  private let journal: EngineJournal
  private let campaign: UInt64
  private let lane: UInt64
  private let chunk = AudienceChunk(entryLimit: chunkCount)
  /// The position in the lane's ring and in the audience. They are equal, because each notification
  /// takes one block.
  private var position: UInt64 = 0
  private var now = Duration.zero

  /// - Parameter tokens: As many tokens of 32 bytes as a chunk has.
  package init(_ files: any JournalFiles, tokens: [UInt8]) throws {
    journal = try EngineJournal.open(files, options: EngineJournalOptions(), runByHand: {}).journal
    campaign = journal.state.withLock { state in
      let number = state.contents.takeNumber()
      state.contents.put(JournalledCampaign(number: number, group: number, app: "news", payload: number, context: []))
      return number
    }
    lane = journal.addLane(app: "news")
    unsafe tokens.withUnsafeBytes { unsafe chunk.append(count: Self.chunkCount, tokens: $0) { UInt64($0) + 1 } }
  }

  /// The work of the journal's thread.
  package func makeDurable() {
    for _ in 0..<2 {
      now += .seconds(1)
      _ = journal.run(now: now)
    }
  }

  /// False: the journal has no room.
  package func takeInAndSettle() -> Bool {
    for _ in 0..<(Self.notificationCount / Self.chunkCount) {
      let piece = ChunkRun(chunk, from: 0, limit: Self.chunkCount, recordByteCountLimit: journal.recordByteCountLimit)
      let end = position + UInt64(piece.blockCount)
      let run = JournalledRun(lane: lane, range: position..<end, campaign: campaign, count: piece.count)
      let mark = AudienceMark(offset: position * 65, line: position + 1)
      let read = AudiencePosition(mark: mark, readLine: end, submitted: Int(end))
      guard journal.enqueue(EnqueueHeader(run: run, position: read), piece.shape, piece.entries(of: chunk)) else {
        return false
      }
      guard journal.intend(lane: lane, through: end) != nil else { return false }
      journal.record(.settled(run, .accepted(.confirmed)))
      position = end
    }
    return true
  }
}

/// The accounting of one campaign.
package final class InsideLedger {
  package static let entryCount = 10_000

  private let ledger: CampaignLedger

  package init(payload: [UInt8]) {
    let frames = CampaignFrames(campaign: 1, command: .framed, payload: payload, expiration: nil, priority: nil)
    ledger = CampaignLedger(frames: frames, journalNumber: nil, account: Account(), listener: nil)
  }

  /// False: the account does not add up.
  package func keepBooks() -> Bool {
    let before = ledger.account.settled
    for _ in 0..<(Self.entryCount / 4) {
      ledger.submitted(1024)
      ledger.settled(1000, .accepted(.confirmed))
      ledger.settled(23, .accepted(.quiet))
      ledger.settled(1, .rejected(.status(.invalidToken)))
    }
    return ledger.account.inFlight == 0 && ledger.account.settled == before + Self.entryCount / 4 * 1024
  }
}
