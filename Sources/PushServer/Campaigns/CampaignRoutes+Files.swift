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
  private static let syncByteCount = 32 << 20
  private static let blockByteCount = 64 << 10
  /// Pieces of lists that are read together; each is what a node has listed in about a tenth of a
  /// second.
  private static let rowsLimit = 32
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
    try demandFiles()
    try intake.demandOpen()
    let live = controller.live(record.id, app: app.id)
    guard live.beginUpload() else {
      throw Problem(.conflict, "Upload under way", "Another upload of this audience is running.")
    }
    defer { live.endUpload() }
    // Before the file is cut, so that no crash leaves a file that is shorter than the store says.
    let (begun, skipCount) = try await controller.beginUpload(record.id, at: first)
    try runner.spool.make(record.id)
    var upload = try AudienceUpload(
      path: runner.spool.audience(record.id), progress: begun.upload, skipping: skipCount,
      rows: AudienceRows(placeholders: try CampaignPlan(parsing: begun.content[...]).placeholders))
    return try await receive(&upload, request, begun.head, grant)
  }

  private func receive(
    _ upload: inout AudienceUpload, _ request: Request, _ campaign: CampaignHead, _ grant: Grant
  ) async throws -> Response {
    let id = campaign.id
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
        if upload.unsyncedByteCount >= Self.syncByteCount {
          try await note(&upload, id)
          // Others of the app may be uploaded at the same time.
          byteLimit = try await runner.audienceByteLimit(campaign)
        }
        guard isOpen() else { throw Problem.unavailable("The service is ending.", retryAfter: 30) }
      }
      try await grant.demand()
      try upload.complete()
    } catch {
      try upload.cut()
      try await note(&upload, id)
      if let problem = error as? Problem { throw problem }
      throw Problem(
        .badRequest, "Cut off", "The upload was cut off after \(upload.progress.lineCount) lines.",
        action: "Continue with Carillon-First-Line: \(upload.progress.lineCount + 1).")
    }
    let progress = upload.progress
    try await controller.change(id, { _ in .uploadEnded(isComplete: true) }) { $0.upload = progress }
    return .json { json in
      json.field("lines", progress.lineCount)
      json.field("complete", true)
    }
  }

  private static let tooLarge = Problem(
    .contentTooLarge, "Too large", "The audiences of the app's campaigns would take more bytes than it may have.",
    action: "Wait until campaigns are forgotten, or ask the operator for more: audiences: { bytes: … }.")

  /// Keeps what has come in so far.
  private func note(_ upload: inout AudienceUpload, _ id: StoredUUID) async throws {
    try upload.sync()
    let progress = upload.progress
    try await controller.change(id, { _ in .uploadEnded(isComplete: false) }) { $0.upload = progress }
  }

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

  /// Files of uploads are on the disk of the service that leads.
  ///
  /// - Throws: ``Problem`` with 503.
  private func demandFiles() throws {
    guard !membership.leads else { return }
    throw Problem(
      .serviceUnavailable, "Other node",
      membership.leader.map { "The node \($0) leads, and has the audiences that are uploaded." }
        ?? "No node leads at present, so no audience can be uploaded.",
      action: "Send the request to that node.", retryAfter: 1)
  }

  // MARK: Lists

  /// Everything that was not accepted, as it is at present.
  func getOutcomes(_ request: Request, _ context: ControlContext) async throws -> Response {
    let (app, grant) = try await readGrant(request, context)
    let record = try await campaign(context, of: app)
    if !record.summary.isForDevices { try demandFiles() }
    let parts = try await controller.store.progress(of: record.id)
    var paths = [runner.spool.leftOut(record.id)]
    for part in parts {
      runner.recorder.flush(record.id.name(part: part.number))
      paths.append(runner.spool.list(record.id, part: part.number))
    }
    let header = ByteBuffer(string: ServedList.header + "\n")
    return Response(
      status: .ok, headers: [.contentType: "text/csv; charset=utf-8"],
      body: ResponseBody { [paths, ledger = controller.store.ledger, id = record.id] writer in
        try await writer.write(header)
        var cursor: OutcomeRowsCursor?
        while let page = try await ledger?.outcomeRows(of: id, after: cursor, limit: Self.rowsLimit) {
          try await grant.demand()
          try await writer.write(ByteBuffer(bytes: page.rows))
          cursor = page.next
        }
        for path in paths {
          guard let file = FileHandle(forReadingAtPath: path) else { continue }
          defer { try? file.close() }
          var isHeader = true
          while let block = try file.read(upToCount: Self.blockByteCount), !block.isEmpty {
            // A list that ends here without an error would look complete.
            try await grant.demand()
            var rest = block[...]
            if isHeader {
              guard let end = rest.firstIndex(of: UInt8(ascii: "\n")) else { continue }
              rest = rest[(end + 1)...]
              isHeader = false
            }
            if !rest.isEmpty { try await writer.write(ByteBuffer(bytes: rest)) }
          }
        }
        try await writer.finish(nil)
      })
  }
}
