internal import HTTPTypes
internal import Synchronization

/// How long requests take.
final class RequestMetrics: Sendable {
  private struct Key: Hashable {
    let route: String
    let method: String
    let status: Int
  }

  private let registry: MetricsRegistry
  private let known = Mutex<[Key: HistogramSeries]>([:])

  /// Methods that a route can have; a client may invent others.
  private static let methods: Set<String> = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]

  init(_ registry: MetricsRegistry) { self.registry = registry }

  /// - Parameter route: the pattern of the address, such as `/v1/apps/{app}`; nil if there is none.
  func record(_ duration: Duration, route: String?, method: HTTPRequest.Method, status: HTTPResponse.Status) {
    let name = Self.methods.contains(method.rawValue) ? method.rawValue : "other"
    let key = Key(route: route ?? "none", method: name, status: status.code)
    let series = known.withLock { known in
      if let series = known[key] { return series }
      let series = registry.histogram(
        Metric.requestDuration, [("route", key.route), ("method", key.method), ("code", String(key.status))])
      known[key] = series
      return series
    }
    series.record(duration)
  }
}
