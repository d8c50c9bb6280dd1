internal import Carillon
internal import Foundation
internal import PushEngine
internal import PushWire

/// Completes the lists of campaigns that have all ended: after a loss of power the journal may know
/// of notifications whose rows are missing.
struct EndedLists {
  let opened: SendJournal
  /// Those of one account.
  let campaigns: [(campaign: JournalledCampaign, context: CampaignContext.Send, tokens: FileFingerprint)]

  init(_ opened: SendJournal, _ campaigns: [JournalledCampaign]) throws {
    self.opened = opened
    self.campaigns = try campaigns.map { campaign in
      let context = try opened.context(of: campaign)
      return (campaign, context.send, context.tokens)
    }
  }

  /// Returns notices as sentences. A list that is complete, or is no longer a file, is not touched.
  func complete() throws -> [String] {
    var devices: [GoneDevice] = []
    return [try completeOutcomes(&devices), try completeGone(devices)].compactMap { $0 }
  }

  private var sources: [OutcomesRestoration.Source] {
    campaigns.map { campaign, context, _ in opened.source(campaign, context.app.id, context.tokensName, nil) }
  }

  /// - Parameter devices: gets those that the list calls gone.
  private func completeOutcomes(_ devices: inout [GoneDevice]) throws -> String? {
    guard let path = campaigns.lazy.compactMap(\.context.outcomes).first, Self.isFile(path) else { return nil }
    let columns = OutcomesColumns(
      namesSource: campaigns.count > 1, namesTime: campaigns.contains { $0.context.app.transport.isHTTP2 })
    let sources = sources
    let history = try OutcomesHistory(
      path: path, columns: columns,
      sources: sources.map { OutcomesHistory.Source(app: $0.app, tokens: $0.tokens, settled: nil) })
    devices = history.listed.flatMap(\.gone)
    guard zip(sources, history.listed).contains(where: { !$0.missing($1).isEmpty }) else { return nil }
    let file = try OutcomesFile(replacing: path, columns: columns, rows: history.rows)
    var restoration = OutcomesRestoration(file: file, path: path, directory: opened.directory)
    for (index, source) in sources.enumerated() {
      try restoration.restore(source, listed: history.listed[index]) { audience(of: campaigns[index]) }
    }
    let problem = file.finish()
    try file.sync()
    return problem ?? restoration.sentence
  }

  private func completeGone(_ devices: [GoneDevice]) throws -> String? {
    guard let context = campaigns.lazy.map(\.context).first(where: { $0.gone != nil }), let path = context.gone,
      Self.isFile(path)
    else { return nil }
    return try GoneFile(path: path).restore(
      sources, listed: devices, begunAt: UInt64(context.begunAt), directory: opened.directory)
  }

  private static func isFile(_ path: String) -> Bool {
    var status = Foundation.stat()
    return unsafe stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
  }

  /// The token file from its beginning; nil if it, or the payload, is not what it was.
  private func audience(
    of ended: (campaign: JournalledCampaign, context: CampaignContext.Send, tokens: FileFingerprint)
  ) -> (any AudienceSource, AudienceChunk)? {
    let context = ended.context
    guard (try? ended.tokens.difference(of: context.tokensFile)) == .some(nil),
      (try? context.payload.difference(of: context.payloadFile)) == .some(nil),
      let template = try? PayloadTemplate.read(file: context.payloadFile)
    else { return nil }
    let isHTTP2 = context.app.transport.isHTTP2
    let headers = ended.campaign.headers ?? ProviderHeaders(topic: nil)
    let limit = isHTTP2 ? headers.payloadLimit : context.app.command.payloadLimitDefault
    let hasTemplate = !template.columns.isEmpty
    let file = try? AudienceFile(path: context.tokensFile, from: nil, readsHeaders: isHTTP2) { header in
      hasTemplate ? try template.renderer(for: header, byteLimit: limit) : nil
    }
    return file.map {
      ($0, AudienceChunk(payloadCapacity: hasTemplate ? AudienceChunk.defaultPayloadCapacity : 0))
    }
  }
}
