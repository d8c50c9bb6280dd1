package import PushEngine
internal import PushTransport
internal import PushWire

extension AppSettings {
  /// What the engine makes of the settings.
  package var engineConfiguration: AppRules {
    var configuration = AppRules(id: id)
    configuration.command = command
    configuration.connections = connections
    configuration.connectionsPerMinute = Double(connectionsPerMinuteOrDefault)
    configuration.batchByteCount = batching.maxBytes
    configuration.batchDelay = batching.maxDelay
    configuration.rateLimit = rateLimit
    configuration.weight = weight
    configuration.patience = patience
    configuration.policy.confirm = settle.confirm
    configuration.policy.quiet = settle.quiet
    configuration.policy.onUnknown = onUnknown
    configuration.policy.attempts = attempts
    configuration.policy.hasIdentifiers = command.carriesIdentifier
    configuration.policy.windowCount = window.notifications
    configuration.policy.ringBlockCount = window.ringBlockCount
    return configuration
  }
}

extension AppSettings.Window {
  /// The largest ring that keeps to `bytes`: its size is a power of two, and several of the largest
  /// notifications must fit.
  fileprivate var ringBlockCount: Int {
    let blocks = max(bytes / NotificationRing.blockByteCount, 8 * RingRecord.blockCountLimit)
    return 1 << (Int.bitWidth - 1 - blocks.leadingZeroBitCount)
  }
}
