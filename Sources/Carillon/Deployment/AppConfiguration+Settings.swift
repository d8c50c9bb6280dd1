internal import PushWire

extension AppConfiguration {
  /// The same as the rest of the library takes it.
  ///
  /// - Throws: ``CarillonError/Code-swift.struct/configuration`` for what cannot be.
  var settings: AppSettings {
    get throws(CarillonError) {
      try check()
      var settings = AppSettings(id: id, credential: credential.settings)
      settings.topic = topic
      switch transport {
      case .http2(let environment):
        settings.transport = .http2
        settings.environment = environment.wire
      case .binary(let environment, let frames):
        settings.transport = .binary
        settings.environment = environment.wire
        settings.command = frames.wire
      }
      settings.gateway = gateway.map { Endpoint(host: $0.host, port: $0.port) }
      settings.trust = trustedAuthorities
      settings.pushType = pushType.wire
      settings.connections = connections
      settings.connectionsPerMinute = connectionsPerMinute
      settings.rateLimit = rateLimit
      settings.weight = weight
      settings.patience = patience
      settings.attempts = attempts
      settings.onUnknown = onUnknown.wire
      settings.batching.maxBytes = batching.byteCount
      settings.batching.maxDelay = batching.delay
      settings.window.notifications = window.notifications
      settings.window.bytes = window.bytes
      settings.settle.quiet = settling.quiet
      settings.settle.confirm = settling.usesProbes ? .probe : .quiet
      settings.requestTimeout = http2.requestTimeout
      settings.streams = http2.concurrentRequests
      settings.pingInterval = http2.pingInterval
      return settings
    }
  }

  private func check() throws(CarillonError) {
    func demand(_ isGood: Bool, _ problem: String) throws(CarillonError) {
      if !isGood { throw CarillonError(.configuration, "The app \"\(id)\": \(problem)") }
    }
    let isPlain = id.utf8.allSatisfy { byte in
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"):
        true
      default: ".-_".utf8.contains(byte)
      }
    }
    try demand(!id.isEmpty && isPlain, "its id must be made of letters, digits, \".\", \"_\" and \"-\".")
    try demand(![".", ".."].contains(id), "its id must not be that of a folder: name the app, as in \"news\".")
    try demand(!topic.isEmpty, "its topic is empty: name the bundle identifier.")
    try demand(connections.lowerBound >= 1 && connections.upperBound <= 1000, "it may have 1 to 1,000 connections.")
    try demand(connectionsPerMinute ?? 1 > 0, "connectionsPerMinute must be above 0.")
    try demand(rateLimit ?? 1 > 0, "its rate limit must be above 0.")
    try demand(AppSettings.Bounds.weight.contains(weight), "its weight must be from 1 to 100.")
    try demand(
      (1...RequestPolicy.attemptCountLimit).contains(attempts),
      "attempts must be from 1 to \(RequestPolicy.attemptCountLimit).")
    try demand(patience > .zero && settling.quiet > .zero, "patience and the quiet period must be above 0.")
    try demand((1...(16 << 20)).contains(batching.byteCount), "a batch may have 1 byte to 16 MiB.")
    try demand(batching.delay >= .zero, "the delay of a batch must not be below 0.")
    try demand(window.notifications >= 1 && window.bytes >= 1, "its window must hold at least one notification.")
    try demand(
      http2.requestTimeout > .zero && http2.pingInterval > .zero, "the times of HTTP/2 must be above 0.")
    try demand(
      (1...RequestPolicy.streamCountLimit).contains(http2.concurrentRequests),
      "a connection may have 1 to \(RequestPolicy.streamCountLimit) concurrent requests.")
    if let gateway {
      try demand(
        (1...65535).contains(gateway.port) && !gateway.host.isEmpty,
        "\(gateway) is not a valid gateway: give a host, and a port from 1 to 65535.")
    }
    if let keyIdentifier = credential.settings.keyIdentifier {
      try demand(transport.isHTTP2, "a token key needs HTTP/2.")
      try demand(
        !keyIdentifier.isEmpty, "the key's identifier is not in the name of its file: give it as keyID.")
    }
  }
}
