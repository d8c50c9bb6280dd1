internal import Carillon

extension AppSettings {
  /// What of these counts without a start, instead of what the other ones have.
  func atOnce(besides other: AppSettings) -> AppSettings {
    var known = other
    known.credential = credential
    (known.rateLimit, known.weight, known.patience) = (rateLimit, weight, patience)
    (known.queueByteCount, known.bridgeClients) = (queueByteCount, bridgeClients)
    (known.timeZone, known.quietHours, known.audienceByteCount) = (timeZone, quietHours, audienceByteCount)
    known.openCampaignCount = openCampaignCount
    (known.feedbackInterval, known.feedbackService) = (feedbackInterval, feedbackService)
    return known
  }

  /// The keys of the file whose values differ and count after the next start.
  func waiting(besides other: AppSettings) -> [String] {
    var names: [String] = []
    func compare(_ name: String, _ value: (AppSettings) -> some Equatable) {
      if value(self) != value(other) { names.append(name) }
    }
    compare("topic") { $0.topic }
    compare("environment") { $0.environment }
    compare("transport") { $0.transport }
    compare("command") { $0.command }
    compare("push-type") { $0.pushType }
    compare("request-timeout") { $0.requestTimeout }
    compare("streams") { $0.streams }
    compare("ping-interval") { $0.pingInterval }
    compare("gateway") { $0.gateway }
    compare("trust") { $0.trust }
    compare("connections") { [$0.connections.lowerBound, $0.connections.upperBound, $0.connectionsPerMinute ?? 0] }
    compare("batching") { $0.batching }
    compare("window") { $0.window }
    compare("settle") { $0.settle }
    compare("on-unknown") { $0.onUnknown }
    compare("attempts") { $0.attempts }
    return names
  }
}

extension ServerConfiguration {
  /// The keys of the file whose values differ and count after the next start, without those of
  /// apps.
  func waiting(besides other: ServerConfiguration) -> [String] {
    var names: [String] = []
    func compare(_ name: String, _ value: (ServerConfiguration) -> some Equatable) {
      if value(self) != value(other) { names.append(name) }
    }
    compare("journal") { $0.deployment.journal }
    compare("api") { configuration in
      var api = configuration.api
      // Another certificate counts at once.
      api.certificate = nil
      return api
    }
    compare("admin") { $0.admin }
    compare("store") { $0.storePath }
    compare("shutdown") { $0.shutdown }
    compare("retention") { $0.retention }
    compare("bridge") { $0.bridge?.withoutFiles }
    return names
  }
}
