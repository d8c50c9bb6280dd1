internal import Synchronization
internal import Testing

@testable internal import PushTransport

@Suite("The check of a client's certificate without a connection")
struct ClientCertificateCheckTests {
  /// Authorities and clients that the `openssl` command has made.
  private struct Made {
    let folder: Scratch
    /// PEM files of which each is an authority's certificate.
    var authorities: [String] = []
    /// Files with certificates, and their keys.
    var clients: [(name: String, file: String, key: String)] = []

    init() throws {
      folder = try Scratch()
      let root = try authority("root")
      let small = try authority("small", bits: 1024)
      let middle = try issue("middle", by: root, extensions: "basicConstraints=critical,CA:TRUE")
      let other = try authority("other")
      authorities = [root, small, other]
      let leaf = try issue("leaf", by: middle, extensions: "extendedKeyUsage=clientAuth")
      add("with its intermediate", [leaf, middle])
      add("without its intermediate", [leaf])
      add("with a certificate that does not belong to it", [leaf, other])
      add("issued by the root", [try issue("direct", by: root, extensions: "extendedKeyUsage=clientAuth")])
      add("a server's", [try issue("server", by: root, extensions: "extendedKeyUsage=serverAuth")])
      add("issued by a small key", [try issue("weak", by: small, extensions: "extendedKeyUsage=clientAuth")])
      add("expired", [try issue("expired", by: root, extensions: "extendedKeyUsage=clientAuth", days: -1)])
      add("its own authority", [root])
      let stranger = try authority("stranger")
      add("of a stranger", [try issue("foreign", by: stranger, extensions: "extendedKeyUsage=clientAuth")])
    }

    private func path(_ name: String) -> String { folder.file(name) }
    private static func key(_ certificate: String) -> String { certificate.dropLast(3) + "key" }

    private func authority(_ name: String, bits: Int = 2048) throws -> String {
      try OpenSSLCommand.run([
        "req", "-x509", "-newkey", "rsa:\(bits)", "-nodes", "-keyout", path(name + ".key"), "-out", path(name + ".pem"),
        "-subj", "/CN=\(name)", "-days", "30", "-addext", "keyUsage=critical,keyCertSign,digitalSignature",
      ])
      return path(name + ".pem")
    }

    private func issue(_ name: String, by issuer: String, extensions: String, days: Int = 10) throws -> String {
      try OpenSSLCommand.run([
        "req", "-newkey", "rsa:2048", "-nodes", "-keyout", path(name + ".key"), "-out", path(name + ".csr"),
        "-subj", "/CN=\(name)",
      ])
      let file = try folder.write(extensions + "\n", to: name + ".ext")
      try OpenSSLCommand.run([
        "x509", "-req", "-in", path(name + ".csr"), "-CA", issuer, "-CAkey", Self.key(issuer), "-CAcreateserial",
        "-days", "\(days)", "-out", path(name + ".pem"), "-extfile", file,
      ])
      return path(name + ".pem")
    }

    private mutating func add(_ name: String, _ certificates: [String]) {
      let texts = certificates.map { (try? SecretFile.read($0).bytes) ?? [] }
      let file = "client\(clients.count).pem"
      let text = String(decoding: texts.flatMap(\.self), as: UTF8.self)
      guard let written = try? folder.write(text, to: file) else { return }
      clients.append((name, written, Self.key(certificates[0])))
    }
  }

  /// What the judge of a handshake hears.
  private func handshake(
    _ client: (name: String, file: String, key: String), _ authorities: String,
    _ oldestVersion: TLSServerConfiguration.OldVersion?, _ material: Material
  ) throws -> String?? {
    let heard = Heard()
    var policy = ClientCertificatePolicy(request: .required, trust: .file(authorities))
    policy.judge = { _, distrust in
      heard.set(distrust)
      return nil
    }
    var configuration = TLSServerConfiguration(credential: material.server.credential, clients: policy)
    configuration.oldestVersion = oldestVersion
    let credential = try Credential.load(
      CredentialFiles(certificate: client.file, key: client.key), validAt: nil)
    var pair = try SessionPair(
      material.clientContext(credential: .some(.some(credential))), TLSContext(server: configuration))
    pair.carryAll()
    return heard.value
  }

  @Test("its verdict is that of the handshake, with authorities in PEM and in DER")
  func sameVerdict() throws {
    let made = try Made()
    let material = try Material()
    try #require(made.clients.count == 9)
    var trusted: Set<String> = []
    for authority in made.authorities {
      let der = authority + ".der"
      try OpenSSLCommand.run(["x509", "-in", authority, "-outform", "der", "-out", der])
      for file in [authority, der] {
        for oldestVersion in [nil, .tls10] as [TLSServerConfiguration.OldVersion?] {
          for client in made.clients {
            let heard = try #require(try handshake(client, file, oldestVersion, material), "\(client.name)")
            let found = try ClientCertificateCheck.distrust(
              client.file, authorities: .file(file), oldestVersion: oldestVersion)
            #expect(found == heard, "\(client.name), \(file)")
            if found == nil { trusted.insert(client.name + (oldestVersion == nil ? "" : ", old versions")) }
          }
        }
      }
    }
    #expect(trusted.contains("with its intermediate"))
    #expect(!trusted.contains("without its intermediate"))
    #expect(!trusted.contains("issued by a small key"))
    #expect(trusted.contains("issued by a small key, old versions"))
  }
}

private final class Heard: Sendable {
  private let state = Mutex<String??>(nil)

  var value: String?? { state.withLock { $0 } }
  func set(_ distrust: String?) { state.withLock { $0 = .some(distrust) } }
}
