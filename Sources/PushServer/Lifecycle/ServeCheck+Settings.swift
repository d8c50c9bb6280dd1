internal import Carillon
internal import Foundation
internal import PushStore
internal import PushTransport
internal import PushWire

/// What settings mean that need no look at anything else.
extension ServeCheck {
  mutating func addLimits(_ configuration: ServerConfiguration) {
    let api = configuration.api
    var parts = [
      "bodies have at most \(Quantity.describe(byteCount: api.maxBody))",
      "there are at most \(NumberText.grouped(api.maxConnections)) connections, "
        + "\(NumberText.grouped(api.addressConnections)) of one address and "
        + "\(NumberText.grouped(api.keylessConnections)) without a key",
      "one that is silent for \(Quantity.describe(api.idleTimeout)) is closed",
      api.rateLimit.map { "a key makes at most \($0.formatted()) requests/s" } ?? "a key makes any number of requests",
    ]
    let names = ["localhost", "addresses"] + api.hosts.sorted()
    parts.append("the dashboard answers to \(names.joined(separator: ", "))")
    addFact("api", parts.joined(separator: ", "))
    addOpenFiles(OpenFileLimit.need(configuration), limit: OpenFileLimit.hard)
    addFact(
      "shutdown",
      "readiness is denied for \(Quantity.describe(configuration.shutdown.announce)), then what is in flight has "
        + Quantity.describe(configuration.shutdown.drain))
    addFact(
      "retention", "outcomes and campaigns are kept for \(Quantity.describe(configuration.retention)) after their end")
    addFact("log", "\(configuration.log.level) and worse, as \(configuration.log.format.rawValue), to standard error")
  }
}

extension ServeCheck {
  /// A proxy that the environment names, which other programs follow.
  mutating func addProxy(_ tenants: [Tenant], environment: [String: String]) {
    let names = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"].filter { environment[$0]?.isEmpty == false }
    guard let name = names.first, tenants.contains(where: { $0.app.proxy == nil }) else { return }
    addFact(
      "proxy", "\(name) is set, and nothing follows it; name the proxy in the configuration, or \"proxy: none\" stays")
  }
}

extension ServeCheck {
  /// Whether the process may have as many connections open as the configuration lets it.
  mutating func addOpenFiles(_ need: Int, limit: Int) {
    guard need > limit else { return }
    addWarning(
      "open files",
      "the connections of clients, of the bridge and to gateways can be \(NumberText.grouped(need)), and the "
        + "process may have \(NumberText.grouped(limit)) files open; raise the limit, as with LimitNOFILE, or lower "
        + "max-connections")
  }
}

extension Tenant {
  /// How the app behaves, and which settings are not the usual ones.
  var checkedSentences: [String] {
    var usual = Tenant(AppConfiguration(id: id, topic: nil, transport: .init(.binary), credential: app.credential))
    var sentences = [
      "its weight is \(app.weight), and without progress for \(Quantity.describe(app.patience)) it is suspended and "
        + "tries again later"
    ]
    if let proxy = app.proxy {
      sentences.append("it sends through \(proxy)\(proxy.login.map { " as \($0.username.cited)" } ?? "")")
    }
    if let quietHours { sentences.append("campaigns pause during \(quietHours), \(timeZone ?? "UTC")") }
    if quietHours == nil, let timeZone { sentences.append("devices without a time zone are in \(timeZone)") }
    for cap in caps {
      let span = Quantity.describe(.milliseconds(cap.span))
      sentences.append("a user gets at most \(NumberText.count(cap.count, "campaign")) in \(span)")
    }
    if let holdoutPercent { sentences.append("\(holdoutPercent) % of its users get no campaigns") }
    if let connectionTotal {
      sentences.append("all nodes together have at most \(NumberText.count(connectionTotal, "connection"))")
    }
    if isShared { sentences.append("what it acknowledges is in the database, too, so that another node can send it") }
    if audienceByteCount != usual.audienceByteCount {
      sentences.append("the audiences of its campaigns have at most \(Quantity.describe(byteCount: audienceByteCount))")
    }
    if openCampaignCount != usual.openCampaignCount {
      sentences.append("at most \(NumberText.grouped(openCampaignCount)) of its campaigns may be unfinished")
    }
    if !app.transport.isHTTP2 {
      switch feedbackInterval {
      case .zero: sentences.append("its feedback service is never read")
      case let every:
        let interval = every == usual.feedbackInterval ? "daily" : "every \(Quantity.describe(every))"
        sentences.append("its feedback service at \(app.feedbackOrDefault) is read \(interval)")
      }
    }
    // What the first sentence has.
    usual.app.transport = .init(app.transport.name)
    (usual.app.topic, usual.app.gateway, usual.app.connections) = (app.topic, app.gateway, app.connections)
    let names = app.waiting(besides: usual.app)
    if !names.isEmpty { sentences.append("changed from the default: \(names.joined(separator: ", "))") }
    return sentences
  }
}
