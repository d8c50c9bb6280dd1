package import PushEngine
internal import PushTransport
internal import PushWire

extension AppConfiguration {
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

  /// Where its channels are managed: the service that it names, else Apple's for its environment
  /// (HTTP2ProviderAPI.md, section 6).
  ///
  /// - Throws: ``CarillonError/ErrorCode/configuration``.
  func channelServiceOrDefault() throws(CarillonError) -> Endpoint {
    guard transport.isHTTP2 else {
      throw CarillonError(
        .configuration, "The app \(id) uses the binary protocol, which has no channels: set transport: http2")
    }
    if let channelService { return channelService.endpoint }
    guard gateway == nil else {
      throw CarillonError(
        .configuration, "The app \(id) has a gateway of its own: set channels.service, which manages its channels")
    }
    return switch environment {
    case .production: Endpoint(host: "api-manage-broadcast.push.apple.com", port: 2196)
    case .sandbox: Endpoint(host: "api-manage-broadcast.sandbox.push.apple.com", port: 2195)
    }
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
    rules.maxAge = maxAge
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
