internal import Foundation
internal import PushTransport
internal import Testing

@testable internal import PushServer

/// What the guides, the alert rules and Grafana's dashboard say about metrics, against the metrics
/// themselves.
@Suite("Monitoring files")
struct MonitoringFilesTests {
  private static func text(_ path: String) throws -> String {
    let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent()
    return try String(contentsOf: root.appending(path: path), encoding: .utf8)
  }

  private static let guides = "Sources/Carillon/Documentation.docc/Guides"

  @Test("alert rules and Grafana's dashboard use metrics that there are", arguments: ["alerts.yml", "grafana.json"])
  func names(file: String) throws {
    let known = Set(Metric.all.map(\.name))
    let used = try Self.text("ops/service/\(file)").matches(of: /carillon_[a-z_]+/).map { String($0.0) }
    #expect(used.count > 10)
    for name in Set(used) {
      let base = name.replacing(/_(bucket|sum|count)$/, with: "")
      #expect(known.contains(name) || known.contains(base), "\(file): \(name)")
    }
  }

  /// Metrics that Grafana's dashboard leaves out, with the reason.
  private static let unshown = [
    "carillon_ready": "load balancers ask /readyz",
    "carillon_build_info": "its labels are asked for when machines differ",
    "carillon_journal_failed": "an alert says that the journal cannot be written",
    "carillon_node_configuration_differs": "an alert says that a node has other settings",
    "carillon_descriptors_lacking": "an alert says that connections cannot be accepted",
    "carillon_batch_notifications": "for measurements of a single connection",
  ]

  @Test("Grafana's dashboard shows every metric, but for those that are left out on purpose")
  func shown() throws {
    let text = try Self.text("ops/service/grafana.json")
    let shown = Set(
      text.matches(of: /carillon_[a-z_]+/).map { String($0.0.replacing(/_(bucket|sum|count)$/, with: "")) })
    for metric in Metric.all {
      #expect(shown.contains(metric.name) != (Self.unshown[metric.name] != nil), "\(metric.name)")
    }
    #expect(Set(Self.unshown.keys).isSubset(of: Metric.all.map(\.name)))
  }

  @Test("the guide has every metric with its labels")
  func guide() throws {
    let rows = try Self.text("\(Self.guides)/SeeTheService.md").split(separator: "\n")
      .compactMap { $0.wholeMatch(of: /\| `([a-z_]+)` \| ([^|]*)\|.*/) }
    var listed: [String: Set<String>] = [:]
    for row in rows {
      listed["carillon_\(row.1)"] = Set(row.2.matches(of: /`([a-z]+)`/).map { String($0.1) })
    }
    for metric in Metric.all {
      let labels = try #require(listed[metric.name], "\(metric.name) is not in the guide")
      #expect(labels == Self.labels[metric.name] ?? ["app"], "\(metric.name)")
    }
    #expect(listed.count == Metric.all.count)
  }

  /// Of metrics with other labels than the app's.
  static let labels: [String: Set<String>] = [
    "carillon_notifications_total": ["app", "outcome", "reason"], "carillon_reconnects_total": ["app", "cause"],
    "carillon_queue_notifications": ["app", "priority"], "carillon_connections": ["app", "state"],
    "carillon_webhook_deliveries_total": ["app", "result"], "carillon_app_paused": ["app", "why"],
    "carillon_delivery_duration_seconds": ["app", "stage"],
    "carillon_bridge_responses_total": ["app", "status"], "carillon_bridge_refused_total": [],
    "carillon_bridge_held_total": [], "carillon_bridge_turned_away_total": [],
    "carillon_nodes": ["state"], "carillon_node_leads": [], "carillon_node_draining": [],
    "carillon_node_clock_offset_seconds": [], "carillon_node_configuration_differs": [],
    "carillon_database_standbys": [], "carillon_database_synchronous_standbys": [],
    "carillon_database_oldest_transaction_seconds": [], "carillon_database_rows": [], "carillon_database_dead_rows": [],
    "carillon_journal_fsync_seconds": [], "carillon_journal_lag_seconds": [], "carillon_journal_failed": [],
    "carillon_descriptors_lacking": [],
    "carillon_store_wal_bytes": [], "carillon_store_away_seconds": [], "carillon_ready": [],
    "carillon_build_info": ["version", "commit"],
    "carillon_http_request_duration_seconds": ["route", "method", "code"],
  ]

  @Test("a certificate's end is announced equally early everywhere")
  func expiry() throws {
    let days = CredentialFinding.warningDays
    #expect(AlarmRules.expiryWarning == .seconds(days * 86_400))
    for (path, sentence) in [
      ("ops/service/alerts.yml", "- time() < \(days) * 86400"),
      ("ops/service/alerts.yml", "expires within \(days) days"),
      ("\(Self.guides)/Alarms.md", "ends within \(days) days"),
      ("\(Self.guides)/SeeTheService.md", "ends within \(days) days"),
      ("\(Self.guides)/CredentialsAndRenewal.md", "\(days) days before a certificate ends"),
      ("Sources/CarillonCommand/Credential/CredentialCommand.swift", "last \\\n        \(days) days"),
    ] {
      #expect(try Self.text(path).contains(sentence), "\(path): \(sentence)")
    }
  }

  @Test("systemd waits longer than the service of the example needs to end, or to give up")
  func stopping() throws {
    let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent()
    let example = try ServerConfiguration.read(file: root.appending(path: "ops/service/carillon.yaml").path)
    let limit = EndDeadline(example.shutdown) { _ in }.limit
    let unit = try Self.text("ops/service/carillon.service")
    let stop = try #require(unit.firstMatch(of: /\nTimeoutStopSec=(\d+)\n/).flatMap { Int($0.1) })
    #expect(limit < .seconds(stop))
    #expect(unit.contains("\(limit.components.seconds) s with ops/service/carillon.yaml"))
  }

  @Test("each alert has a heading in the guide, and a test")
  func alerts() throws {
    let alerts = try Self.text("ops/service/alerts.yml").matches(of: /- alert: (\w+)/).map { String($0.1) }
    #expect(alerts.count >= 12)
    let guide = try Self.text("\(Self.guides)/Alarms.md")
    let tests = try Self.text("ops/service/alerts-test.yml")
    for alert in alerts {
      #expect(guide.contains("\n## \(alert)\n"), "\(alert) has no heading")
      let found = tests.components(separatedBy: "alertname: \(alert)\n").dropFirst()
      #expect(found.contains { $0.contains(/\A +exp_alerts:\n +- exp_labels/) }, "\(alert) fires in no test")
      #expect(found.contains { $0.contains(/\A +exp_alerts: \[\]/) }, "\(alert) is silent in no test")
    }
  }
}
