internal import Foundation
internal import PushWire
internal import Testing

@testable internal import Carillon
@testable internal import PushServer

@Suite("Proxies in the configuration")
struct ProxyConfigurationTests {
  private static func text(all: String = "", own: String = "") -> String {
    """
    \(all)
    journal: { directory: j }
    apps:
    - id: news
      topic: com.example.news
      credential: { certificate: a.pem }
      \(own)
    - id: chat
      topic: com.example.chat
      transport: http2
      credential: { certificate: a.pem }
    """
  }

  /// The proxies of the two apps, as each of the readers has them.
  private static func proxies(
    all: String = "", own: String = ""
  ) throws -> (news: AppConfiguration.Proxy?, chat: AppConfiguration.Proxy?) {
    let text = text(all: all, own: own)
    let apps = try DeploymentConfiguration.parse(text, file: "etc/carillon.yaml").apps
    #expect(try ServerConfiguration.parse(text, file: "etc/carillon.yaml").tenants.map(\.app) == apps)
    return (apps[0].proxy, apps[1].proxy)
  }

  private static func complaint(_ value: String) -> String {
    do {
      _ = try proxies(own: "proxy: \(value)")
      return "nothing"
    } catch { return "\(error)" }
  }

  @Test("the file has a proxy for all apps, an app its own, and an app can say that it uses none")
  func inheritance() throws {
    let http = AppConfiguration.Proxy(.http, host: "proxy.example.com", port: 3128)
    let all = "proxy: { url: \"http://proxy.example.com:3128\" }"
    #expect(try Self.proxies() == (nil, nil))
    #expect(try Self.proxies(all: all) == (http, http))
    let own = try Self.proxies(all: all, own: "proxy: { url: \"socks5://[::1]:1080/\" }")
    #expect(own == (AppConfiguration.Proxy(.socks5, host: "::1", port: 1080), http))
    #expect(try Self.proxies(all: all, own: "proxy: none") == (nil, http))
    #expect(try Self.proxies(all: "proxy: none") == (nil, nil))
  }

  @Test("every key is read, and files are beside the configuration")
  func everything() throws {
    var expected = AppConfiguration.Proxy(.https, host: "proxy", port: 443)
    expected.login = .username("carillon", passwordFile: "etc/proxy.pass")
    expected.trustedAuthorities = "etc/proxy.pem"
    let read = try Self.proxies(
      own: "proxy: { url: HTTPS://proxy:443, username: carillon, password-file: proxy.pass, trust: proxy.pem }")
    #expect(read.news == expected)
    #expect("\(expected)" == "https://proxy:443")
  }

  @Test("what is wrong is named, and a password in a URL is not repeated")
  func complaints() {
    for (value, expected) in [
      ("{ url: \"ftp://proxy:1\" }", "apps[0].proxy.url must be http://host:port or https://host:port or socks5://"),
      ("{ url: \"http://proxy\" }", "with its port"),
      ("{ url: \"proxy:3128\" }", "must be http://host:port"),
      ("{ url: \"http://proxy:3128/way\" }", "with its port"),
      ("{ url: \"http://carillon:sesame@proxy:3128\" }", "has a username in its URL"),
      ("{ url: \"http://proxy:1\", username: a }", "needs both username and password-file"),
      ("{ url: \"http://proxy:1\", password-file: a }", "needs both username and password-file"),
      ("{ url: \"http://proxy:1\", username: \"a:b\", password-file: a }", "cannot have a colon"),
      ("{ url: \"http://proxy:1\", trust: a }", "only with https"),
      ("{ username: a }", "needs the key \"url\""),
      ("{ url: \"http://proxy:1\", password: sesame }", "unknown key \"password\""),
      ("nothing", "must hold keys and values"),
    ] {
      let complaint = Self.complaint(value)
      #expect(complaint.contains(expected), "\(value): \(complaint)")
      #expect(!complaint.contains("sesame"), "\(complaint)")
    }
    let long = String(repeating: "u", count: 256)
    #expect(Self.complaint("{ url: \"http://p:1\", username: \(long), password-file: a }").contains("1 to 255 bytes"))
  }

  @Test("a login in memory is checked, and is neither printed nor encoded")
  func memory() throws {
    var app = AppConfiguration(
      id: "news", topic: "com.example.news", transport: .http2(), credential: .certificate(file: "a.pem"))
    app.proxy = AppConfiguration.Proxy(.socks5, host: "proxy", port: 1)
    app.proxy?.login = .username("a:b", password: "sesame")
    try app.check()
    #expect(!"\(app)".contains("sesame"))
    #expect(throws: EncodingError.self) { try JSONEncoder().encode(app.proxy?.login?.password) }
    app.proxy?.login = .username("a", password: "")
    #expect(throws: CarillonError.self) { try app.check() }
    app.proxy = AppConfiguration.Proxy(.http, host: "pro\r\nxy", port: 1)
    #expect(throws: CarillonError.self) { try app.check() }
  }

  @Test("a password file that others can read, or without a password, is refused with what mends it")
  func passwordFile() throws {
    let file = FileManager.default.temporaryDirectory.appending(path: "carillon-proxy-\(UUID().uuidString)").path
    defer { try? FileManager.default.removeItem(atPath: file) }
    var proxy = AppConfiguration.Proxy(.http, host: "proxy", port: 1)
    proxy.login = .username("carillon", passwordFile: file)
    func complaint(_ content: String, mode: Int = 0o600) throws -> String? {
      try Data(content.utf8).write(to: URL(filePath: file))
      try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: file)
      do {
        _ = try proxy.resolve()
        return nil
      } catch { return "\(error)" }
    }
    #expect(try complaint("sesame\n") == nil)
    #expect(
      try complaint("sesame\n", mode: 0o640)
        == "\(file) holds a password that other users can read (mode 0640); run: chmod 600 \(file)")
    for content in ["", "\nsesame", String(repeating: "x", count: 256)] {
      #expect(try complaint(content)?.hasSuffix("must have a password in its first line, of 1 to 255 bytes") == true)
    }
    try FileManager.default.removeItem(atPath: file)
    #expect(throws: (any Error).self) { try proxy.resolve() }
  }

  @Test("another proxy, or other content of its files, is another way: a running app takes it over")
  func live() throws {
    var app = AppConfiguration(
      id: "news", topic: "com.example.news", transport: .http2(), credential: .certificate(file: "a.pem"))
    var other = app
    other.proxy = AppConfiguration.Proxy(.https, host: "proxy", port: 1)
    other.proxy?.login = .username("carillon", passwordFile: "proxy.pass")
    other.proxy?.trustedAuthorities = "proxy.pem"
    #expect(app.adopting(other) == other)
    #expect(other.waiting(besides: app).isEmpty)
    #expect(other.credentialFiles == ["a.pem", "proxy.pem", "proxy.pass"])
    app.proxy = other.proxy
    #expect(app.adopting(other) == app)
  }

  @Test("a proxy of the environment is mentioned where an app has none, and its URL is not")
  func environment() throws {
    func facts(all: String, _ environment: [String: String]) throws -> [String] {
      let configuration = try ServerConfiguration.parse(Self.text(all: all, own: "proxy: none"), file: "/c.yaml")
      var check = ServeCheck()
      check.addProxy(configuration.tenants, environment: environment)
      return check.facts.map(\.text)
    }
    let named = try facts(all: "", ["https_proxy": "http://a:sesame@b:1", "ALL_PROXY": ""])
    #expect(named.count == 1)
    #expect(named.first?.hasPrefix("https_proxy is set, and nothing follows it") == true)
    #expect(named.first?.contains("sesame") == false)
    #expect(try facts(all: "", ["HTTP_PROXY": "http://b:1"]).isEmpty)
  }
}
