internal import Carillon
internal import Foundation
internal import PushServer
internal import PushService
internal import PushStore
internal import PushTransport
internal import PushWire

/// The apps of a service, from `GET /v1/apps`. Fields that a service does not have stay empty.
struct ServiceStatus: Decodable, Sendable {
  struct App: Decodable, Sendable {
    var id: String
    var state: String
    var reason: String?
    var waitsFor: String?
    var connections: Connections?
    var queue: Queue?
    var inFlight: Int?
    var rates: Rates?
    var credentialExpiresAt: String?
  }

  struct Connections: Decodable, Sendable {
    var open: Int?
  }

  struct Rates: Decodable, Sendable {
    /// Over the last minute.
    var settledPerSecond: Double?
  }

  struct Queue: Decodable, Sendable {
    var notifications: Int?
    var oldestSeconds: Double?
  }

  var items: [App]
  /// Nil: there are no more.
  var nextCursor: String?

  /// The most apps of one answer.
  private static let pageLimit = 1000

  /// Asks for all apps.
  ///
  /// - Returns: the apps, and the answers that they were in.
  static func read(_ client: APIClient) async throws -> (apps: [App], bodies: [String]) {
    var (apps, bodies, cursor) = ([App](), [String](), "")
    while true {
      let reply = try await client.send(
        .get("/v1/apps?limit=\(pageLimit)" + (cursor.isEmpty ? "" : "&cursor=\(cursor)")))
      let page = try reply.decoded(ServiceStatus.self)
      apps += page.items
      bodies.append(String(decoding: reply.body, as: UTF8.self))
      guard let next = page.nextCursor, next != cursor else { return (apps, bodies) }
      cursor = next
    }
  }

  /// A table with the apps that need attention first, and a line of its own for each reason.
  ///
  /// - Parameters:
  ///   - columns: of the terminal; nil: any number.
  ///   - rows: of the terminal, for all lines; nil: any number.
  ///   - now: seconds since 1970.
  static func lines(_ apps: [App], columns: Int?, rows: Int? = nil, now: Int64) -> [String] {
    let ordered = apps.enumerated().sorted {
      ($0.element.rank, $0.offset) < ($1.element.rank, $1.offset)
    }.map(\.element)
    let cells = ordered.map { $0.cells(now: now) }
    let others = (cells + [head]).map { row in row.dropFirst().map(\.count) }
    let widths = (0..<(head.count - 1)).map { column in others.map { $0[column] }.max() ?? 0 }
    let left = columns.map { max(leastNameWidth, $0 - widths.reduce(0) { $0 + $1 + 2 }) } ?? .max
    let table = TextTable.lines(
      ([head] + cells).map { row in [cut(row[0], to: left)] + row.dropFirst() }, leftAligned: [0, 1, 6])
    var lines = [summary(apps), "", table[0]]
    for (index, app) in ordered.enumerated() {
      let details = app.details.flatMap { TextTable.wrapped($0, indent: 2, columns: columns) }
      // A line is left for what does not fit.
      if let rows, lines.count + 1 + details.count >= rows, index < ordered.count {
        let rest = ordered.count - index
        lines.append("… \(rest) more app\(rest == 1 ? "" : "s")")
        break
      }
      lines.append(table[index + 1])
      lines += details
    }
    return lines
  }

  private static let head = ["app", "state", "open", "rate", "pending", "oldest", "certificate"]
  private static let leastNameWidth = 8

  private static func summary(_ apps: [App]) -> String {
    var counts: [String: Int] = [:]
    for app in apps { counts[app.word, default: 0] += 1 }
    let parts = App.words.compactMap { word in counts[word].map { "\($0) \(word)" } }
    return "\(apps.count) app\(apps.count == 1 ? "" : "s")" + (parts.isEmpty ? "" : ": ")
      + parts.joined(separator: ", ")
  }

  private static func cut(_ text: String, to width: Int) -> String {
    text.count <= width ? text : text.prefix(max(0, width - 1)) + "…"
  }
}

extension ServiceStatus.App {
  /// The states in the order of the table.
  fileprivate static let words = ["stopped", "suspended", "waiting", "paused", "running"]

  /// An app that tries without success is "running" by its state, but needs attention.
  fileprivate var word: String { state == "running" && waitsFor != nil ? "waiting" : state }
  fileprivate var rank: Int { Self.words.firstIndex(of: word) ?? 0 }

  fileprivate func cells(now: Int64) -> [String] {
    [
      id, word, connections?.open.map { NumberText.grouped($0) } ?? "-",
      rates?.settledPerSecond.map { NumberText.rate($0) } ?? "-",
      queue?.notifications.map { NumberText.grouped($0 + (inFlight ?? 0)) } ?? "-",
      queue?.oldestSeconds.map { NumberText.age(.seconds(Int64($0))) } ?? "-", certificate(now: now),
    ]
  }

  /// Its last day, or how long it lasts if that is not long.
  private func certificate(now: Int64) -> String {
    guard let text = credentialExpiresAt else { return "" }
    guard let end = InstantText.instant(text).map({ $0.milliseconds / 1000 }),
      end - now < CredentialFinding.warningDays * 86_400
    else { return String(text.prefix(10)) }
    return end <= now ? "expired" : "\(NumberText.age(.seconds(end - now))) left"
  }

  fileprivate var details: [String] {
    [reason.map { $0.prefix(1).uppercased() + $0.dropFirst() }, waitsFor.map { "Waits: \($0)" }]
      .compactMap { $0?.asSentence }
  }
}
