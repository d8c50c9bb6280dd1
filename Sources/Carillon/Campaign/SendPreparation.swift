internal import PushEngine
internal import PushTransport
internal import PushWire

extension SendPlan {
  /// Reads credentials and opens token files. Nothing has been sent when this throws.
  ///
  /// - Parameter unixSeconds: now; expirations count from it, and certificates must be valid at it.
  package func prepare(at unixSeconds: UInt32) throws -> PreparedSend {
    var prepared = PreparedSend(apps: [], campaigns: [])
    var parts: [String: PreparedSend.AppPart] = [:]
    let registry = ProviderTokenRegistry()
    for app in apps {
      let credential = try ResolvedCredential.resolve(app, registry: registry, validAt: Int64(unixSeconds))
      var named = app
      if isNamedByTopic, let topic = app.topic ?? credential.certificate?.topics.first { named.id = topic }
      let part = PreparedSend.AppPart(configuration: named, credential: credential)
      parts[app.id] = part
      prepared.apps.append(part)
      if let certificate = credential.certificate {
        prepared.warnings += Self.warnings(about: certificate, of: app, at: Int64(unixSeconds))
      }
    }
    for entry in entries {
      guard let part = parts[entry.app] else { throw CarillonError(.configuration, "there is no app \"\(entry.app)\"") }
      let hasTemplate = !entry.template.columns.isEmpty
      var sent = Campaign(
        payload: hasTemplate ? [] : entry.template.sample, expiration: entry.expiration?.unixSeconds(now: unixSeconds),
        priority: entry.priority)
      switch part.configuration.transport.name {
      case .binary: prepared.warnings += try check(entry, command: part.configuration.command)
      case .http2:
        sent.headers = headers(entry, part)
        prepared.warnings += try check(entry, sent.requestHeaders, part.credential.kind)
      }
      let limit =
        part.configuration.transport.isHTTP2
        ? sent.requestHeaders.payloadLimit : part.configuration.command.payloadLimitDefault
      let audience = try open(
        entry, from: entry.resumed?.mark, byteLimit: limit, readsHeaders: part.configuration.transport.isHTTP2)
      if !part.configuration.transport.isHTTP2 {
        for column in audience.headerColumns where !entry.template.columns.contains(column) {
          prepared.warnings.append(
            "\(entry.tokens) has the column \(column), which only HTTP/2 can send; it is ignored.")
        }
      }
      prepared.campaigns.append(
        PreparedSend.CampaignPart(
          app: part.configuration.id, sent: sent, audience: audience,
          payloadCapacity: hasTemplate ? AudienceChunk.defaultPayloadCapacity : 0,
          tokens: entry.tokensName ?? entry.tokens, number: entry.resumed?.campaign.number,
          settledLines: entry.resumed?.settledLines))
    }
    return prepared
  }

  /// The journal's headers, if the campaign is resumed. Otherwise the plan's, with the full topic,
  /// so that later changes of settings do not change it.
  private func headers(_ entry: Entry, _ part: PreparedSend.AppPart) -> ProviderHeaders {
    if let headers = entry.resumed?.campaign.headers { return headers }
    let overrides = entry.overrides
    let isBroadcast = overrides.channelIdentifier != nil
    var headers = ProviderHeaders(
      topic: overrides.topic ?? part.configuration.topic,
      pushType: overrides.pushType ?? (isBroadcast ? .liveActivity : part.configuration.pushType.wire))
    headers.collapseIdentifier = overrides.collapseIdentifier
    headers.channelIdentifier = overrides.channelIdentifier
    headers.topic = headers.effectiveTopic(for: part.credential.kind)
    return headers
  }

  /// The audience of a resumed campaign, from its beginning.
  func wholeAudience(
    _ entry: Entry, _ campaign: PreparedSend.CampaignPart, _ app: PreparedSend.AppPart
  ) throws -> SendAudience {
    let isHTTP2 = app.configuration.transport.isHTTP2
    let limit = isHTTP2 ? campaign.sent.requestHeaders.payloadLimit : app.configuration.command.payloadLimitDefault
    return try open(entry, from: nil, byteLimit: limit, readsHeaders: isHTTP2)
  }

  private func open(
    _ entry: Entry, from mark: AudienceMark?, byteLimit: Int, readsHeaders: Bool
  ) throws -> SendAudience {
    if let channel = entry.overrides.channelIdentifier {
      if let column = entry.template.columns.first {
        throw CarillonError(
          .payload,
          "\(entry.payloadFile) has the placeholder {{\(column)}}, but a broadcast to a "
            + "channel has no token file to fill it from")
      }
      return .channel(channel)
    }
    do {
      let file = try AudienceFile(path: entry.tokens, from: mark, readsHeaders: readsHeaders) { header in
        entry.template.columns.isEmpty ? nil : try entry.template.renderer(for: header, byteLimit: byteLimit)
      }
      return .file(file)
    } catch let error as PayloadTemplateError {
      throw CarillonError(.payload, "\(entry.payloadFile) with \(entry.tokens): \(error)")
    } catch {
      throw CarillonError(describing: error)
    }
  }

  /// Throws the first error; returns warnings.
  private func check(_ entry: Entry, command: FrameVersion) throws -> [String] {
    if let name = entry.overrides.name {
      throw CarillonError(
        .configuration,
        "A \(name) needs HTTP/2, but the app \(entry.app) uses the binary protocol: set transport: http2")
    }
    if entry.priority == PushPriority.low.rawValue {
      throw CarillonError(
        .configuration,
        "Priority 1 needs HTTP/2, but the app \(entry.app) uses the binary protocol: use 5 or 10")
    }
    let findings = Payload.check(entry.template.sample, for: .binary(command), priority: entry.priority)
    return try sentences(findings, of: entry) { "The payload \(entry.payloadFile) cannot be sent: \($0)" }
  }

  private func check(
    _ entry: Entry, _ headers: ProviderHeaders, _ credential: ProviderCredentialKind
  ) throws -> [String] {
    let findings = headers.findings(payload: entry.template.sample, credential: credential)
    let type = headers.pushType.rawValue
    return try sentences(findings, of: entry) {
      "\(entry.payloadFile) cannot be sent as a notification of type \(type): \($0)"
    }
  }

  private func sentences(
    _ findings: [PayloadFinding], of entry: Entry, failure: (String) -> String
  ) throws -> [String] {
    let errors = findings.filter { $0.severity == .error }.map(\.sentence)
    if !errors.isEmpty {
      let more = errors.count - Self.errorCountLimit
      let text = errors.prefix(Self.errorCountLimit).joined(separator: " ")
      throw CarillonError(.payload, "\(failure(text))\(more > 0 ? " (and \(more) more errors)" : "")")
    }
    return findings.map { "\(entry.payloadFile): \($0.path): \($0.sentence)" }
  }

  /// The most errors of a payload in one message.
  private static let errorCountLimit = 3

  private static func warnings(
    about certificate: CertificateInspection, of app: AppConfiguration, at now: Int64
  ) -> [String] {
    guard case .certificate(let files) = app.credential.settings else { return [] }
    var warnings: [String] = []
    let days = certificate.daysLeft(at: now)
    if days < CredentialFinding.warningDays {
      warnings.append(
        "The certificate \(files.certificate) expires in \(days) day\(days == 1 ? "" : "s"); request a new one.")
    }
    // Over HTTP/2 this is an error, found with the headers.
    if !app.transport.isHTTP2, let topic = app.topic, !certificate.topics.isEmpty,
      !certificate.topics.contains(topic)
    {
      warnings.append(
        "The certificate \(files.certificate) is for \(certificate.topics.joined(separator: ", ")), not for "
          + "\(topic) as the configuration says.")
    }
    if app.gateway == nil, !certificate.environments.isEmpty,
      !certificate.environments.contains(where: { $0.rawValue == app.environment.rawValue })
    {
      let named = certificate.environments.map(\.rawValue).sorted().joined(separator: ", ")
      warnings.append("The certificate \(files.certificate) is for \(named), not for \(app.environment.rawValue).")
    }
    return warnings
  }
}
