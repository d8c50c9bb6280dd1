internal import Carillon
internal import Foundation

/// How many files and connections the process may have open.
enum OpenFileLimit {
  /// Files besides connections: the journal, the store, credentials, lists.
  private static let otherFileCount = 64

  /// Raises the limit to the most that the system lets this process have.
  ///
  /// - Returns: the limit that counts now.
  @discardableResult
  static func raise() -> Int {
    var limit = rlimit()
    guard unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return 0 }
    if limit.rlim_cur < limit.rlim_max {
      limit.rlim_cur = limit.rlim_max
      _ = unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
      _ = unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }
    return Int(clamping: limit.rlim_cur)
  }

  /// The limit that ``raise()`` would reach.
  static var hard: Int {
    var limit = rlimit()
    guard unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return 0 }
    return Int(clamping: limit.rlim_max)
  }

  /// Descriptors that a configuration can use at the same time. The listener for health and metrics
  /// has as many connections as the API may have.
  static func need(_ configuration: ServerConfiguration) -> Int {
    let clients = 2 * configuration.api.maxConnections + (configuration.bridge?.connectionLimit ?? 0)
    let lanes = configuration.tenants.reduce(0) { $0 + $1.app.connections.upperBound }
    let webhooks = configuration.tenants.count { $0.webhook != nil }
    return clients + lanes + webhooks + otherFileCount
  }
}
