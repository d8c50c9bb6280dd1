internal import Carillon
internal import Foundation
internal import HTTPTypes
internal import Hummingbird
internal import NIOCore
internal import PushService
internal import PushStore
internal import PushWire

extension CampaignRoutes {
  private static let firstLineHeader = HTTPField.Name("Carillon-First-Line")
  /// What has come in is made durable at least so often, so that a long upload survives.
  private var syncByteCount: Int { runner.files.areShared ? AudiencePiece.byteCountLimit : 32 << 20 }
  /// Bytes that are read in one turn: some milliseconds.
  private static let turnByteCount = 16 << 10

  // MARK: Audiences

  func postAudience(_ request: Request, _ context: ControlContext) async throws -> Response {
    let (app, grant) = try await access.grant(request, context, .campaigns)
    let record = try await campaign(context, of: app)
    guard !record.summary.isForDevices else {
      throw Problem(.conflict, "No upload", "The campaign's audience are stored devices, so nothing is uploaded.")
    }
    try checkType(request)
    let first = try firstLine(request)
    try intake.demandOpen()
    let live = controller.live(record.id, app: app.id)
    guard live.beginUpload() else {
      throw Problem(.conflict, "Upload under way", "Another upload of this audience is running.")
    }
    defer { live.endUpload() }
    // Before the file is cut, so that no crash leaves a file that is shorter than the store says.
    let (begun, skipCount) = try await controller.beginUpload(record.id, at: first)
    try runner.spool.make(record.id)
    // What another node has taken in is here from now on.
    runner.files.forget(record.id)
    try await runner.files.fetch(begun.head)
    var upload = try AudienceUpload(
      path: runner.spool.audience(record.id), progress: begun.upload, skipping: skipCount,
      rows: AudienceRows(placeholders: try CampaignPlan(parsing: begun.content[...]).placeholders))
    return try await receive(&upload, request, begun.head, grant)
  }

  private func receive(
    _ upload: inout AudienceUpload, _ request: Request, _ campaign: CampaignHead, _ grant: Grant
  ) async throws -> Response {
    let id = campaign.id
    var stored = campaign.upload
    do {
      var byteLimit = try await runner.audienceByteLimit(campaign)
      for try await part in request.body {
        try await grant.demand()
        guard upload.byteCount + Int64(part.readableBytes) <= byteLimit else { throw Self.tooLarge }
        var rest = part
        while let slice = rest.readSlice(length: min(rest.readableBytes, Self.turnByteCount)), slice.readableBytes > 0 {
          try await withParsingPool {
            try await ParsingPool.shared.turn(of: grant.keyID) { try upload.take(slice.readableBytesView) }
          }
        }
        try upload.flushFullBlock()
        if upload.unsyncedByteCount >= syncByteCount {
          try await note(&upload, id, &stored)
          // Others of the app may be uploaded at the same time.
          byteLimit = try await runner.audienceByteLimit(campaign)
        }
        guard isOpen() else { throw Problem.unavailable("The service is ending.", retryAfter: 30) }
      }
      try await grant.demand()
      try upload.complete()
    } catch {
      try upload.cut()
      try await note(&upload, id, &stored)
      if let problem = error as? Problem { throw problem }
      throw Problem(
        .badRequest, "Cut off", "The upload was cut off after \(upload.progress.lineCount) lines.",
        action: "Continue with Carillon-First-Line: \(upload.progress.lineCount + 1).")
    }
    try await store(upload.progress, id, &stored)
    let progress = upload.progress
    return .json { json in
      json.field("lines", progress.lineCount)
      json.field("complete", true)
    }
  }

  private static let tooLarge = Problem(
    .contentTooLarge, "Too large", "The audiences of the app's campaigns would take more bytes than it may have.",
    action: "Wait until campaigns are forgotten, or ask the operator for more: audiences: { bytes: … }.")

  /// Keeps what has come in so far.
  private func note(
    _ upload: inout AudienceUpload, _ id: StoredUUID, _ stored: inout StoredUpload
  ) async throws {
    try upload.sync()
    try await store(upload.progress, id, &stored)
  }

  /// - Parameter stored: what the campaign has; another upload, at another node, must not have
  ///   changed it.
  private func store(
    _ progress: StoredUpload, _ id: StoredUUID, _ stored: inout StoredUpload
  ) async throws {
    let pieces =
      runner.files.areShared
      ? try runner.files.pieces(of: id, from: stored.byteCount, to: progress.byteCount) : []
    let known = stored
    try await controller.change(
      id, { _ in .uploadEnded(isComplete: progress.isComplete) },
      { campaign in
        guard campaign.upload == known else { throw Self.replaced }
        campaign.upload = progress
      }, adding: pieces)
    try runner.files.added(pieces, to: id)
    stored = progress
  }

  private static let replaced = Problem(
    .conflict, "Upload under way", "Another upload of this audience has begun.",
    action: "Let one client upload it, at any node.")

  private func checkType(_ request: Request) throws {
    guard let type = request.headers[.contentType] else { return }
    let name = type.split(separator: ";").first.map { $0.lowercased().filter { $0 != " " } } ?? ""
    let known = [
      "text/csv", "text/plain", "application/x-ndjson", "application/ndjson", "application/jsonl",
      "application/octet-stream", "application/x-www-form-urlencoded",
    ]
    guard known.contains(name) else {
      throw Problem(
        .unsupportedMediaType, "Unknown format", "An audience is CSV or NDJSON, not \(name).",
        action: "Send it as text/csv or application/x-ndjson.")
    }
  }

  private func firstLine(_ request: Request) throws -> Int64? {
    guard let name = Self.firstLineHeader, let text = request.headers[name] else { return nil }
    guard let line = Int64(text), line >= 1 else {
      throw Problem.malformed("The header Carillon-First-Line must be the number of a line, from 1.")
    }
    return line
  }

  func getOutcomes(_ request: Request, _ context: ControlContext) async throws -> Response {
    let (app, grant) = try await readGrant(request, context)
    let list = CampaignList(runner: runner, campaign: try await campaign(context, of: app).id)
    return try await list.response(under: grant)
  }
}

/// Everything of a campaign that was not accepted, as it is at present.
struct CampaignList: Sendable {
  let runner: CampaignRunner
  let campaign: StoredUUID

  /// Pieces that are read together; each is what a node has listed in about a tenth of a second.
  private static let rowsLimit = 32

  func response(under grant: Grant) async throws -> Response {
    let store = runner.controller.store
    let parts = try await store.progress(of: campaign)
    // Where nodes share the store it has this list, too.
    var paths = runner.files.areShared ? [] : [runner.spool.leftOut(campaign)]
    for part in parts {
      runner.recorder.flush(campaign.name(part: part.number))
      paths.append(runner.spool.list(campaign, part: part.number))
    }
    let header = ByteBuffer(string: ServedList.header + "\n")
    return Response(
      status: .ok, headers: [.contentType: "text/csv; charset=utf-8"],
      body: ResponseBody { [paths, ledger = store.ledger, campaign] writer in
        try await writer.write(header)
        var cursor: OutcomeRowsCursor?
        while let page = try await ledger?.outcomeRows(of: campaign, after: cursor, limit: Self.rowsLimit) {
          try await grant.demand()
          try await writer.write(ByteBuffer(bytes: page.rows))
          cursor = page.next
        }
        for path in paths {
          guard let list = SpoolReading(path: path) else { continue }
          while let rows = try list.next() {
            // A list that ends here without an error would look complete.
            try await grant.demand()
            try await writer.write(ByteBuffer(bytes: rows))
          }
        }
        try await writer.finish(nil)
      })
  }
}
