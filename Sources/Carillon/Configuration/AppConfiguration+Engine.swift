package import PushEngine
internal import PushTransport
internal import PushWire

extension AppConfiguration {
  /// Checks what a deployment demands of an app.
  ///
  /// - Throws: ``CarillonError/Code-swift.struct/configuration``.
  package func check() throws(CarillonError) {
    func demand(_ isGood: Bool, _ problem: String) throws(CarillonError) {
      if !isGood { throw CarillonError(.configuration, "The app \"\(id)\": \(problem).") }
    }
    if let problem = Self.problem(ofID: id) { try demand(false, "its id \(problem)") }
    guard topic != nil else {
      throw CarillonError(.configuration, "The app \"\(id)\" needs its topic, as in topic: com.example.news.")
    }
    for setting in AppSetting.all {
      if let problem = setting.problem(in: self) { try demand(false, "\(setting.key) \(problem)") }
    }
    guard let keyIdentifier = credential.settings.keyIdentifier else { return }
    try demand(transport.isHTTP2, "a token key needs HTTP/2")
    try demand(!keyIdentifier.isEmpty, "the key's identifier is not in the name of its file: give it as keyID")
  }

  /// Why no app can have this id, as the end of a sentence; nil if one can.
  package static func problem(ofID id: String) -> String? {
    let isPlain = id.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "._-".contains($0)) }
    guard !id.isEmpty, id.utf8.count <= 128, isPlain else {
      return "must consist of letters, digits, \".\", \"_\" and \"-\", at most 128, not \(id.cited)"
    }
    guard id != ".", id != ".." else {
      return "must not be \(id.cited), which addresses and paths use otherwise; name the app, as in news"
    }
    return nil
  }

  /// The gateway to connect to. Apple switched its binary gateways off in 2021, so binary senders
  /// should name one.
  package var gatewayOrDefault: Endpoint {
    if let gateway { return gateway.endpoint }
    return switch (transport.name, environment) {
    case (.binary, .production): Endpoint(host: "gateway.push.apple.com", port: 2195)
    case (.binary, .sandbox): Endpoint(host: "gateway.sandbox.push.apple.com", port: 2195)
    case (.http2, .production): Endpoint(host: "api.push.apple.com", port: 443)
    case (.http2, .sandbox): Endpoint(host: "api.sandbox.push.apple.com", port: 443)
    }
  }

  /// The feedback service that it names; else the one that belongs to the gateway.
  package var feedbackOrDefault: Endpoint {
    if let feedbackService { return feedbackService.endpoint }
    let gateway = gatewayOrDefault
    let host =
      self.gateway == nil ? gateway.host.replacing("gateway.", with: "feedback.", maxReplacements: 1) : gateway.host
    return Endpoint(host: host, port: 2196)
  }

  /// Apple's hosts are treated politely: 3,000 a minute, enough for a campaign in which one token
  /// in a thousand is refused. Any other gateway is its owner's: 60,000.
  package var connectionsPerMinuteOrDefault: Int {
    connectionsPerMinute ?? (AppleHosts.isAppleName(gatewayOrDefault.host) ? 3_000 : 60_000)
  }

  /// What the engine makes of it.
  package var engineRules: AppRules {
    var rules = AppRules(id: id)
    rules.command = command
    rules.connections = connections
    rules.connectionsPerMinute = Double(connectionsPerMinuteOrDefault)
    rules.batchByteCount = batching.byteCount
    rules.batchDelay = batching.delay
    rules.rateLimit = rateLimit
    rules.weight = weight
    rules.patience = patience
    rules.policy.confirm = confirm
    rules.policy.quiet = settling.quiet
    rules.policy.onUnknown = onUnknown.wire
    rules.policy.attempts = attempts
    rules.policy.hasIdentifiers = command.carriesIdentifier
    rules.policy.windowCount = window.notifications
    rules.policy.ringBlockCount = window.ringBlockCount
    return rules
  }
}

extension AppConfiguration.Window {
  /// The largest ring that keeps to `bytes`: its size is a power of two, and several of the largest
  /// notifications must fit.
  fileprivate var ringBlockCount: Int {
    let blocks = max(bytes / NotificationRing.blockByteCount, 8 * RingRecord.blockCountLimit)
    return 1 << (Int.bitWidth - 1 - blocks.leadingZeroBitCount)
  }
}
