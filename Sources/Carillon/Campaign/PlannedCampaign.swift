package import PushEngine
internal import PushTransport
package import PushWire

/// A campaign that is about to begin, or to be resumed.
package struct PlannedCampaign: Sendable {
  let entry: AppEntry
  package var sent: Campaign
  /// Nil if every recipient gets the same payload.
  package var template: PayloadTemplate?
  package var context = CampaignContext()
  /// The campaign's in the journal, when it has begun there.
  package var number: UInt64?
  /// Payloads in other languages, of a service's campaign.
  var variants: [String: [UInt8]] = [:]
  /// The most entries of a chunk.
  var entryLimit = AudienceChunk.defaultEntryLimit

  /// A new campaign, with every default filled in. Whether it can be sent is for ``findings``.
  ///
  /// - Parameters:
  ///   - template: of the notification's payload.
  ///   - now: seconds since 1970, from which expirations count.
  package init(_ notification: PushNotification, template: PayloadTemplate, through entry: AppEntry, now: UInt32) {
    self.entry = entry
    let hasPlaceholders = !template.columns.isEmpty
    self.template = hasPlaceholders ? template : nil
    var headers = PreparedNotification.headers(
      notification, app: entry.configuration, kind: entry.credential.kind, expiration: nil)
    headers?.priority = nil
    sent = Campaign(
      payload: hasPlaceholders ? [] : notification.json, expiration: notification.expiration?.unixSeconds(now: now),
      priority: notification.priority?.rawValue, headers: headers)
  }

  /// A campaign as it began.
  package init(
    resuming campaign: JournalledCampaign, payload: [UInt8], template: PayloadTemplate?, through entry: AppEntry
  ) {
    self.entry = entry
    self.template = template.flatMap { $0.columns.isEmpty ? nil : $0 }
    number = campaign.number
    sent = Campaign(
      payload: self.template == nil ? payload : [], expiration: campaign.expiration, priority: campaign.priority,
      headers: campaign.headers, seed: campaign.seed)
  }

  package var isHTTP2: Bool { sent.headers != nil }

  /// What is wrong with it, or looks wrong. Of a template a sample is checked.
  package var findings: [PayloadFinding] {
    PreparedNotification.findings(
      payload: template?.sample ?? sent.payload, priority: sent.priority, app: entry.configuration,
      kind: entry.credential.kind, headers: isHTTP2 ? sent.requestHeaders : nil)
  }

  package var payloadCapacity: Int { template == nil && variants.isEmpty ? 0 : AudienceChunk.defaultPayloadCapacity }

  var byteLimit: Int {
    isHTTP2 ? sent.requestHeaders.payloadLimit : entry.configuration.command.payloadLimitDefault
  }

  func source<Recipients: AsyncSequence & Sendable>(_ recipients: Recipients, firstLine: UInt64) -> CampaignSource
  where Recipients.Element == Recipient {
    let queue = RecipientQueue(template: template, byteLimit: byteLimit, isHTTP2: isHTTP2, firstLine: firstLine)
    return .queue(queue) { await queue.fill(from: recipients) }
  }

  /// - Parameters:
  ///   - mark: where to continue; nil: at the beginning.
  ///   - payload: what errors call the notification.
  ///   - isReadAgain: who resumes the campaign has the file, and reads tokens in it.
  package func source(
    file path: String, from mark: AudienceMark?, payload: String = "The notification", isReadAgain: Bool = false
  ) throws(CarillonError) -> CampaignSource {
    try source("\(payload) with \(path)") {
      try AudienceFile(path: path, from: mark, readsHeaders: isHTTP2, isReadAgain: isReadAgain, renderer: renderer)
    }
  }

  /// A service's file. One that has lost lines is not begun with.
  func source(
    _ kept: KeptAudience, from mark: AudienceMark?, selection: (AudienceHeader) -> RowSelection?
  ) throws(CarillonError) -> CampaignSource {
    try source("The notification with the audience") {
      let file = try AudienceFile(kept, from: mark, readsHeaders: isHTTP2, renderer: renderer, selection: selection)
      try file.demandWhole()
      return file
    }
  }

  /// Rows of a service's file.
  func source(
    _ kept: KeptAudience, from mark: AudienceMark, permit: any RowPermit
  ) throws(CarillonError) -> CampaignSource {
    let source = try source(kept, from: mark) { _ in nil }
    guard case .file(let file) = source else { return source }
    return .served(PermittedRows(file, permit: permit, payloadCapacity: payloadCapacity), feed: nil)
  }

  private func source(_ name: String, _ open: () throws -> AudienceFile) throws(CarillonError) -> CampaignSource {
    do {
      return .file(try open())
    } catch let error as PayloadTemplateError {
      throw CarillonError(.payload, "\(name): \(error)")
    } catch { throw CarillonError(describing: error) }
  }

  private func renderer(_ header: AudienceHeader) throws -> PayloadRenderer? {
    guard !variants.isEmpty else { return try template?.renderer(for: header, byteLimit: byteLimit) }
    func renderer(_ json: [UInt8]) throws -> PayloadRenderer {
      try PayloadTemplate(parsing: json).renderer(for: header, byteLimit: byteLimit)
    }
    let own = try template?.renderer(for: header, byteLimit: byteLimit) ?? renderer(sent.payload)
    return own.with(variants: try variants.mapValues(renderer), in: header)
  }
}
