internal import Carillon
internal import Foundation

/// The apps of a service, as `GET /v1/apps` has them. Fields that a service does not have stay
/// empty.
package struct ServiceStatus: Decodable, Sendable {
  package struct App: Decodable, Sendable {
    package var id: String
    package var state: String
    package var reason: String?
    package var connections: Connections?
    package var queue: Queue?
    package var credentialExpiresAt: String?
  }

  package struct Connections: Decodable, Sendable {
    package var open: Int?
  }

  package struct Queue: Decodable, Sendable {
    package var notifications: Int?
    package var oldestSeconds: Double?
  }

  package var items: [App]

  /// With a line of titles.
  package static func table(_ apps: [App]) -> [String] {
    let rows = apps.map { app in
      [
        app.id, app.state, app.connections?.open.map { String($0) } ?? "-",
        app.queue?.notifications.map { String($0) } ?? "-",
        app.queue?.oldestSeconds.map { "\(Int($0)) s" } ?? "-",
        app.credentialExpiresAt ?? "-", app.reason ?? "",
      ]
    }
    let head = ["app", "state", "connections", "queued", "oldest", "credential until", "reason"]
    return TextTable.lines([head] + rows, leftAligned: [0, 1, 5, 6])
  }
}
