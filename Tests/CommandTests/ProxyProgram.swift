internal import Foundation
internal import NIOCore
internal import NIOPosix
internal import PushTransport
internal import Support
internal import Testing

/// A proxy of Debian's packages in front of a simulator, on a port of its own. It alone knows
/// ``CertificateFixture/unknownName``.
struct ProxyProgram {
  enum Kind: String, CaseIterable {
    case tinyproxy = "http", tinyproxyOverTLS = "https", microsocks = "socks5"
  }

  static let username = "carillon"
  static let password = "sesame-8"
  static let passwordFile = "proxy.pass"

  let kind: Kind
  let demandsLogin: Bool
  let port: Int
  private let inner: Int
  private let site: HTTP2Site

  /// Nothing listens yet.
  init(_ kind: Kind, demandsLogin: Bool = false, for site: HTTP2Site) throws {
    (self.kind, self.demandsLogin, self.site) = (kind, demandsLogin, site)
    let first = OwnPort.random(count: 2)
    (port, inner) = (first, kind == .tinyproxyOverTLS ? first + 1 : first)
    try site.place.writeSecret("\(Self.password)\n", to: Self.passwordFile)
    try site.place.write("127.0.0.1 \(CertificateFixture.unknownName)\n", to: "hosts")
  }

  var url: String { "\(kind.rawValue)://localhost:\(port)" }

  /// Of a command.
  var flags: [String] {
    var flags = ["--proxy", url]
    if kind == .tinyproxyOverTLS { flags += ["--proxy-trust", site.certificates.files.authority] }
    if demandsLogin { flags += ["--proxy-username", Self.username, "--proxy-password-file", Self.passwordFile] }
    return flags
  }

  /// Of the configuration.
  var setting: String {
    var entries = ["url: \"\(url)\""]
    if kind == .tinyproxyOverTLS { entries.append("trust: \(site.certificates.files.authority)") }
    if demandsLogin { entries.append("username: \(Self.username), password-file: \(Self.passwordFile)") }
    return "proxy: { \(entries.joined(separator: ", ")) }"
  }

  /// Starts it, and returns when it listens.
  ///
  /// - Parameter destination: the only port that it connects to, for tinyproxy; nil: any.
  func start(onlyTo destination: Int? = nil) async throws -> [ChildProcess] {
    var processes = [try kind == .microsocks ? microsocks() : tinyproxy(onlyTo: destination)]
    if kind == .tinyproxyOverTLS { processes.append(try socat()) }
    for port in Set([inner, port]) {
      try await waitUntil("the proxy listens on \(port)") {
        if let ended = processes.first(where: \.hasEnded) { throw NotStarted(description: "\(await ended.ending())") }
        guard
          let channel = try? await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton).connect(
            host: "127.0.0.1", port: port
          ).get()
        else { return false }
        try? await channel.close()
        return true
      }
    }
    return processes
  }

  private struct NotStarted: Error, CustomStringConvertible {
    let description: String
  }

  private func tinyproxy(onlyTo destination: Int?) throws -> ChildProcess {
    try site.place.write(
      """
      Port \(inner)
      Listen 127.0.0.1
      MaxClients 100
      LogLevel Connect
      \(destination.map { "ConnectPort \($0)" } ?? "")
      \(demandsLogin ? "BasicAuth \(Self.username) \(Self.password)" : "")
      """, to: "tinyproxy.conf")
    return try ChildProcess(
      ["-d", "-c", "tinyproxy.conf"], program: "tinyproxy", directory: site.place.url,
      redirection: ">>proxy.log 2>&1", preparation: try preparation)
  }

  private func microsocks() throws -> ChildProcess {
    let login = demandsLogin ? ["-u", Self.username, "-P", Self.password] : []
    return try ChildProcess(
      ["-i", "127.0.0.1", "-p", "\(inner)"] + login, program: "microsocks", directory: site.place.url,
      redirection: ">>proxy.log 2>&1", preparation: try preparation)
  }

  /// TLS in front of it.
  private func socat() throws -> ChildProcess {
    let files = site.certificates.files.server
    return try ChildProcess(
      [
        "OPENSSL-LISTEN:\(port),bind=127.0.0.1,reuseaddr,fork,verify=0,cert=\(files.certificate),key=\(files.key ?? "")",
        "TCP:127.0.0.1:\(inner)",
      ], program: "socat", directory: site.place.url)
  }

  /// Its resolver reads `hosts`, and nobody else's.
  private var preparation: String {
    get throws {
      let folders = try FileManager.default.contentsOfDirectory(atPath: "/usr/lib").map { "/usr/lib/\($0)" }
      let library = try #require(
        folders.map { "\($0)/libnss_wrapper.so" }.first { FileManager.default.fileExists(atPath: $0) },
        "ops/test installs libnss-wrapper")
      return "export LD_PRELOAD=\(library) NSS_WRAPPER_HOSTS=hosts && exec"
    }
  }

  /// What it has written about its clients.
  var log: String { (try? site.place.read("proxy.log")) ?? "" }
}
