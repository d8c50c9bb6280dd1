internal import Foundation
internal import PushStore
internal import PushWire
internal import Testing

@testable internal import Carillon
@testable internal import PushServer

@Suite("The settings of an app")
struct AppSettingTests {
  private static func app(_ transport: AppConfiguration.Transport.Name?) -> AppConfiguration {
    AppConfiguration(
      id: "news", topic: "com.example.news", transport: AppConfiguration.Transport(transport ?? .binary),
      credential: .certificate(file: "news.pem"))
  }

  /// A file with one app that has one more value.
  private static func read(_ setting: AppSetting, _ value: String) throws -> AppConfiguration {
    let parts = setting.key.split(separator: ".")
    let line = parts.count == 1 ? "\(parts[0]): \(value)" : "\(parts[0]): { \(parts[1]): \(value) }"
    let transport = setting.transport ?? .binary
    return try #require(
      try DeploymentConfiguration.parse(
        """
        apps:
        - id: news
          topic: com.example.news
          credential: { certificate: /news.pem }
        \(setting.key == "transport" ? "" : "  transport: \(transport.rawValue)")
          \(line)
        """, file: "/carillon.yaml"
      ).apps.first)
  }

  /// Writes a value as the file has it, and puts it into a configuration.
  private struct Attempt {
    let text: String
    let isGood: Bool
    let put: (inout AppConfiguration) -> Void
  }

  private static func attempts(_ setting: AppSetting) -> [Attempt] {
    func numbers(
      _ range: ClosedRange<Int>, _ text: (Int) -> String, _ put: @escaping (inout AppConfiguration, Int) -> Void
    ) -> [Attempt] {
      [range.lowerBound - 1, range.lowerBound, range.upperBound, range.upperBound + 1].map { value in
        Attempt(text: text(value), isGood: range.contains(value)) { put(&$0, value) }
      }
    }
    switch setting.value {
    case .integer(let path, let range): return numbers(range, { "\($0)" }) { $0[keyPath: path] = $1 }
    case .optionalInteger(let path, let range): return numbers(range, { "\($0)" }) { $0[keyPath: path] = $1 }
    case .byteCount(let path, let range): return numbers(range, { "\($0)" }) { $0[keyPath: path] = $1 }
    case .duration(let path, let range):
      let step = Duration.milliseconds(1)
      return [range.lowerBound - step, range.lowerBound, range.upperBound, range.upperBound + step].map { value in
        let text = value < .zero ? "-1ms" : Quantity.describe(value)
        return Attempt(text: text, isGood: range.contains(value)) { $0[keyPath: path] = value }
      }
    case .rate(let path):
      return ([(0, false), (-1, false), (5, true)] as [(Double, Bool)]).map { value, isGood in
        Attempt(text: "\(value)/s", isGood: isGood) { $0[keyPath: path] = value }
      }
    case .gateway(let path):
      return [("localhost", 0, false), ("localhost", 65_536, false), ("localhost", 65_535, true)].map {
        host, port, isGood in
        Attempt(text: "\"\(host):\(port)\"", isGood: isGood) {
          $0[keyPath: path] = AppConfiguration.Gateway(host: host, port: port)
        }
      }
    case .proxy(let path):
      return [("localhost", 0, false), ("localhost", 65_536, false), ("localhost", 65_535, true)].map {
        host, port, isGood in
        Attempt(text: "{ url: \"http://\(host):\(port)\" }", isGood: isGood) {
          $0[keyPath: path] = AppConfiguration.Proxy(.http, host: host, port: port)
        }
      }
    case .text, .file, .word: return []
    }
  }

  @Test("a file and the library accept the same values", arguments: AppSetting.all.map(\.key))
  func bounds(key: String) throws {
    let setting = try #require(AppSetting.all.first { $0.key == key })
    for attempt in Self.attempts(setting) {
      var app = Self.app(setting.transport)
      attempt.put(&app)
      let refusal = setting.problem(in: app)
      #expect((refusal == nil) == attempt.isGood, "\(key): \(attempt.text): \(refusal ?? "accepted")")
      if attempt.isGood {
        #expect(setting.isEqual(try Self.read(setting, attempt.text), app), "\(key): \(attempt.text)")
      } else {
        #expect(throws: CarillonError.self, "\(key): \(attempt.text)") { try app.check() }
        #expect(throws: ConfigurationError.self, "\(key): \(attempt.text)") { try Self.read(setting, attempt.text) }
      }
    }
    if case .word(_, let words) = setting.value {
      #expect(throws: ConfigurationError.self) { try Self.read(setting, "nothing-like-that") }
      for word in words { _ = try Self.read(setting, word) }
    }
  }

  @Test("an app adopts what counts at once, and says what does not")
  func adopting() {
    var other = Self.app(.binary)
    (other.rateLimit, other.weight, other.patience) = (7, 9, .seconds(77))
    other.feedbackService = AppConfiguration.Gateway(host: "localhost", port: 1)
    other.credential = .certificate(file: "other.pem")
    other.proxy = AppConfiguration.Proxy(.socks5, host: "localhost", port: 1)
    #expect(Self.app(.binary).adopting(other) == other)
    other.attempts = 1
    other.connections = 2...3
    let adopted = Self.app(.binary).adopting(other)
    #expect(adopted.attempts == 5)
    #expect(adopted.weight == 9)
    #expect(other.waiting(besides: adopted) == ["connections", "attempts"])
    #expect(adopted.waiting(besides: Self.app(.binary)).isEmpty)
  }

  @Test("the guides name every key")
  func guides() throws {
    let folder = URL(filePath: #filePath).deletingLastPathComponent()
      .appending(path: "../../Sources/Carillon/Documentation.docc/Guides").standardizedFileURL
    let text = try ["SeveralApps", "HTTP2AndCredentials", "RunAService", "OldProviders", "Campaigns"].map { name in
      let path = folder.appending(path: "\(name).md").path(percentEncoded: false)
      return FileManager.default.fileExists(atPath: path) ? try String(contentsOfFile: path, encoding: .utf8) : ""
    }.joined()
    for key in AppSetting.all.map(\.key) + Tenant.keys {
      for word in key.split(separator: ".") { #expect(text.contains("\(word)"), "\(key)") }
    }
  }

  @Test("what only a service reads is passed over by the other commands, and a misspelt key is not")
  func otherCommands() throws {
    let text = """
      journal: { directory: j }
      api: { listen: "127.0.0.1:1" }
      admin: {}
      store: { path: s.db }
      shutdown: {}
      retention: 1d
      log: {}
      bridge: { listen: "127.0.0.1:2", certificate: a.pem }
      apps:
      - id: news
        topic: com.example.news
        credential: { certificate: a.pem }
        queue: { bytes: 1MiB }
        bridge: { clients: [a.pem] }
        time-zone: Europe/Berlin
        quiet-hours: "22:00-08:00"
        audiences: { bytes: 1GiB }
        campaigns: { unfinished: 5 }
        caps: [{ per: 24h, count: 3 }, { per: 7d, count: 10 }]
        holdout-percent: 5
        feedback: { every: 1h, service: "localhost:1" }
      """
    let app = try #require(try DeploymentConfiguration.parse(text, file: "/c.yaml").apps.first)
    #expect(app.feedbackOrDefault == Endpoint(host: "localhost", port: 1))
    let tenant = try #require(try ServerConfiguration.parse(text, file: "/c.yaml").tenants.first)
    #expect(tenant.app == app)
    #expect(tenant.queueByteCount == 1 << 20)
    #expect(tenant.feedbackInterval == .seconds(3600))
    #expect(tenant.caps.map(\.count) == [3, 10])
    #expect(tenant.caps.map(\.span) == [86_400_000, 7 * 86_400_000])
    #expect(tenant.holdoutPercent == 5)
    for wrong in [
      "caps: 3", "caps: [{ per: 24h }]", "caps: [{ count: 3 }]", "caps: [{ per: 24h, count: 0 }]",
      "caps: [{ per: 1s, count: 3 }]", "caps: [{ per: 32d, count: 3 }]", "caps: [{ per: 24h, count: 3, of: user }]",
      "caps: [\([String](repeating: "{ per: 24h, count: 3 }", count: 5).joined(separator: ", "))]",
      "holdout-percent: 0", "holdout-percent: 100", "holdout-percent: 5%",
    ] {
      let key =
        wrong.hasPrefix("caps") ? "caps: [{ per: 24h, count: 3 }, { per: 7d, count: 10 }]" : "holdout-percent: 5"
      #expect(throws: ConfigurationError.self, "\(wrong)") {
        try ServerConfiguration.parse(text.replacing(key, with: wrong), file: "/c.yaml")
      }
    }
    for (key, wrong) in [("queue:", "queu:"), ("unfinished", "unfinishd"), ("retention:", "retenton:")] {
      #expect(throws: ConfigurationError.self) {
        try DeploymentConfiguration.parse(text.replacing(key, with: wrong), file: "/c.yaml")
      }
    }
  }
}
