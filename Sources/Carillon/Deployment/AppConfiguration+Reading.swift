internal import PushEngine
internal import PushWire

extension AppConfiguration {
  /// An app as the configuration file describes it.
  ///
  /// - Throws: ``CarillonError/Code-swift.struct/configuration`` if the file does not name the
  ///   topic.
  package init(_ settings: AppSettings) throws(CarillonError) {
    guard let topic = settings.topic else {
      throw CarillonError(.configuration, "The app \"\(settings.id)\" needs its topic, as in topic: com.example.news.")
    }
    let environment = Environment(wire: settings.environment)
    self.init(
      id: settings.id, topic: topic,
      transport: settings.transport == .http2
        ? .http2(environment) : .binary(environment, frames: FrameVersion(wire: settings.command)),
      credential: Credential(settings: settings.credential))
    gateway = settings.gateway.map { Gateway(host: $0.host, port: Int($0.port)) }
    trustedAuthorities = settings.trust
    pushType = PushNotification.PushType(wire: settings.pushType)
    connections = settings.connections
    connectionsPerMinute = settings.connectionsPerMinute
    rateLimit = settings.rateLimit
    weight = settings.weight
    patience = settings.patience
    attempts = settings.attempts
    onUnknown = UnknownPolicy(wire: settings.onUnknown)
    batching.byteCount = settings.batching.maxBytes
    batching.delay = settings.batching.maxDelay
    window.notifications = settings.window.notifications
    window.bytes = settings.window.bytes
    settling.quiet = settings.settle.quiet
    settling.usesProbes = settings.settle.confirm == .probe
    http2.requestTimeout = settings.requestTimeout
    http2.concurrentRequests = settings.streams
    http2.pingInterval = settings.pingInterval
  }
}

extension JournalSettings {
  /// The journal that a configuration file describes; nil if it names no directory.
  package init?(_ configuration: JournalConfiguration) {
    guard let directory = configuration.directory else { return nil }
    var options = EngineJournalOptions()
    options.sync = configuration.engineSync
    self.init(directory: directory, options: options)
  }
}
