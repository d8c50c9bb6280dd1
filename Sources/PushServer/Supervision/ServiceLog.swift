internal import Carillon
internal import Foundation
package import Logging
internal import PushWire
internal import Synchronization

/// The log of a service: lines of text or JSON objects. No event has tokens or payloads.
package final class ServiceLog: Sendable {
  private let current: Mutex<ServerConfiguration.Log>
  private let write: @Sendable (String) -> Void

  package init(_ settings: ServerConfiguration.Log, write: @escaping @Sendable (String) -> Void) {
    current = Mutex(settings)
    self.write = write
  }

  /// Level and format of the loggers too that were made before.
  package var settings: ServerConfiguration.Log {
    get { current.withLock { $0 } }
    set { current.withLock { $0 = newValue } }
  }

  package var logger: Logger { Logger(label: "carillon") { _ in Handler(log: self) } }

  private struct Handler: LogHandler {
    let log: ServiceLog
    var metadata: Logger.Metadata = [:]
    var metadataProvider: Logger.MetadataProvider?

    /// The service's own level counts: it can change while loggers are in use.
    var logLevel: Logger.Level {
      get { log.settings.level }
      set {}
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
      get { metadata[key] }
      set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
      var all = metadata
      if let provided = metadataProvider?.get() { all.merge(provided) { own, _ in own } }
      if let given = event.metadata { all.merge(given) { _, given in given } }
      log.write(
        ServiceLog.line(at: Date(), event.level, "\(event.message)", all.map { ($0, "\($1)") }, log.settings.format))
    }
  }

  static func line(
    at instant: Date, _ level: Logger.Level, _ message: String, _ metadata: [(String, String)],
    _ format: ServerConfiguration.Log.Format
  ) -> String {
    let time = instant.formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true))
    let sorted = metadata.map { (name($0.0), $0.1) }.sorted { $0.0 < $1.0 }
    switch format {
    case .text:
      let pairs = sorted.map { key, value in
        value.contains { $0 == " " || $0 == "\"" || $0 == "=" } || value.isEmpty
          ? "\(key)=\(JSONText.quoted(value))" : "\(key)=\(value)"
      }
      return (["\(time) \(level) \(message)"] + pairs).joined(separator: " ")
    case .json:
      return JSONWriter.text { json in
        json.field("time", time)
        json.field("level", "\(level)")
        json.field("message", message)
        for (key, value) in sorted where !["time", "level", "message"].contains(key) { json.field(key, value) }
      }
    }
  }

  private static func name(_ key: String) -> String { key == "hb.request.id" ? "request" : key }
}
