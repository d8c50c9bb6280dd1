internal import Foundation
internal import PushWire
internal import Testing

@testable internal import PushTransport

@Suite("Token signing keys and provider tokens")
struct ProviderKeyTests {
  private let time: Int64 = 1_700_000_000

  private func key() throws -> ProviderKey {
    try ProviderKey.make(keyIdentifier: "ABC123DEFG", teamIdentifier: "DEF123GHIJ")
  }

  private func load(_ file: String, key: String = "ABC123DEFG", team: String = "DEF123GHIJ") -> CredentialError? {
    do throws(CredentialError) {
      _ = try ProviderKey.load(file: file, keyIdentifier: key, teamIdentifier: team)
      return nil
    } catch {
      return error
    }
  }

  @Test("the example of RFC 7515, appendix A.3, verifies, and no other key, input or signature does")
  func example() throws {
    let x = try #require(Base64URL.decode(Array("f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU".utf8)))
    let y = try #require(Base64URL.decode(Array("x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0".utf8)))
    let key = try Self.publicKey(x: x, y: y)
    let input = Array(
      ("eyJhbGciOiJFUzI1NiJ9."
        + "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ").utf8)
    let signature = try #require(
      Base64URL.decode(
        Array("DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q".utf8)))
    #expect(key.verifies(signature, over: input))
    for index in [0, 31, 32, 63] {
      var other = signature
      other[index] ^= 1
      #expect(!key.verifies(other, over: input))
    }
    #expect(!key.verifies(signature, over: input + [46]))
    #expect(!key.verifies([UInt8](repeating: 0, count: 64), over: input))
    #expect(!key.verifies(Array(signature.dropLast()), over: input))
    #expect(!key.verifies([], over: input))
    // DER only where it is allowed; Pushy sends it.
    let der = try #require(ES256Signature.der(raw: signature))
    #expect(!key.verifies(der, over: input))
    #expect(key.verifies(der, over: input, acceptsDER: true))
    #expect(!key.verifies([0x30, 0x00], over: input, acceptsDER: true))
    let point = [UInt8](repeating: 1, count: 32)
    #expect(throws: CredentialError.self, "a point that is not on the curve") { try Self.publicKey(x: point, y: point) }
  }

  /// A public point from its coordinates of 32 bytes each, as in a JWK.
  private static func publicKey(x: [UInt8], y: [UInt8]) throws -> ProviderPublicKey {
    // The SubjectPublicKeyInfo of a P-256 key, up to the uncompressed point.
    let prefix = try #require(Data(base64Encoded: "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE"))
    let scratch = try Scratch()
    let file = scratch.file("public.pem")
    let text = (prefix + Data(x + y)).base64EncodedString(options: .lineLength64Characters)
    try Data("-----BEGIN PUBLIC KEY-----\n\(text)\n-----END PUBLIC KEY-----\n".utf8)
      .write(to: URL(fileURLWithPath: file))
    return try ProviderPublicKey.load(file: file)
  }

  @Test("a token verifies with the public half of its key and with no other")
  func token() throws {
    let key = try key()
    for offset in 0..<50 {
      let text = try key.token(issuedAt: time + Int64(offset))
      let token = try ProviderTokenText(parsing: Array(text.utf8))
      #expect(token.keyIdentifier == "ABC123DEFG")
      #expect(token.teamIdentifier == "DEF123GHIJ")
      #expect(token.issuedAt == time + Int64(offset))
      #expect(token.signature.count == 64)
      #expect(key.publicKey.verifies(token.signature, over: token.signingInput))
      #expect(try !self.key().publicKey.verifies(token.signature, over: token.signingInput))
    }
  }

  @Test("openssl verifies our signature, and we verify openssl's")
  func openssl() throws {
    let scratch = try Scratch()
    let (file, publicFile) = (scratch.file("AuthKey.p8"), scratch.file("public.pem"))
    try key().write(to: file)
    let key = try ProviderKey.load(file: file, keyIdentifier: "ABC123DEFG", teamIdentifier: "DEF123GHIJ")
    try OpenSSLCommand.run(["pkey", "-in", file, "-pubout", "-out", publicFile])

    let token = try ProviderTokenText(parsing: Array(try key.token(issuedAt: time).utf8))
    try Data(token.signingInput).write(to: URL(fileURLWithPath: scratch.file("input")))
    try Data(try #require(ES256Signature.der(raw: token.signature))).write(
      to: URL(fileURLWithPath: scratch.file("ours")))
    let verdict = try OpenSSLCommand.run([
      "dgst", "-sha256", "-verify", publicFile, "-signature", scratch.file("ours"), scratch.file("input"),
    ])
    #expect(verdict.contains("Verified OK"))

    try OpenSSLCommand.run(["dgst", "-sha256", "-sign", file, "-out", scratch.file("theirs"), scratch.file("input")])
    let theirs = [UInt8](try Data(contentsOf: URL(fileURLWithPath: scratch.file("theirs"))))
    let publicKey = try ProviderPublicKey.load(file: publicFile)
    #expect(publicKey.verifies(theirs, over: token.signingInput, acceptsDER: true))
    #expect(publicKey.verifies(try #require(ES256Signature.raw(der: theirs)), over: token.signingInput))
    let again = try ProviderPublicKey.load(file: file)
    #expect(publicKey.fingerprint == key.fingerprint)
    #expect(again.fingerprint == key.fingerprint)
    let listing = try OpenSSLCommand.run(["pkey", "-in", file, "-noout", "-text"])
    #expect(listing.contains("prime256v1"))
  }

  @Test("keys that openssl writes are read: PKCS#8 as from the developer account, and the older form")
  func formats() throws {
    let scratch = try Scratch()
    try OpenSSLCommand.run([
      "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", scratch.file("a.p8"),
    ])
    try OpenSSLCommand.run(["ecparam", "-name", "prime256v1", "-genkey", "-out", scratch.file("b.pem")])
    for name in ["a.p8", "b.pem"] {
      try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: scratch.file(name))
      #expect(load(scratch.file(name)) == nil, "\(name)")
    }
  }

  @Test("a file that is not a token key is refused, and the error says what it is")
  func refused() throws {
    let scratch = try Scratch()
    func found(_ name: String, _ arguments: [String]) throws -> String {
      try OpenSSLCommand.run(arguments + ["-out", scratch.file(name)])
      try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: scratch.file(name))
      if case .notTokenKey(_, let found) = load(scratch.file(name)) { return found }
      return "\(String(describing: load(scratch.file(name))))"
    }
    #expect(
      try found("p384.p8", ["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"])
        == "a key on the curve secp384r1")
    #expect(
      try found("rsa.p8", ["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"])
        == "a key of the type RSA")
    #expect(try found("ed.p8", ["genpkey", "-algorithm", "ED25519"]) == "a key of the type ED25519")
    let file = scratch.file("key.p8")
    try key().write(to: file)
    #expect(try found("public.pem", ["pkey", "-in", file, "-pubout"]) == "a public key")
    try OpenSSLCommand.run(["pkcs8", "-topk8", "-in", file, "-passout", "pass:x", "-out", scratch.file("encrypted.p8")])
    #expect(load(scratch.file("encrypted.p8")) == .tokenKeyEncrypted(file: scratch.file("encrypted.p8")))

    let material = try Material()
    let certificate = scratch.file("certificate.pem")
    try material.app.writePEM(certificate: certificate, key: scratch.file("other.key"))
    #expect(load(certificate) == .notTokenKey(file: certificate, found: "a certificate"))
    let text = try scratch.write("hello\n", to: "text.p8")
    #expect(load(text) == .notTokenKey(file: text, found: "no PEM text"))
    let damaged = try scratch.write(
      "-----BEGIN PRIVATE KEY-----\nMIGHAgEA\n-----END PRIVATE KEY-----\n", to: "damaged.p8")
    guard case .notTokenKey(_, let what) = load(damaged) else {
      Issue.record("a damaged key was accepted")
      return
    }
    #expect(what.hasPrefix("a key that cannot be read"))
    guard case .unreadable = load(scratch.file("missing.p8")) else {
      Issue.record("a missing file was accepted")
      return
    }
    #expect(load(file, key: "") == .identifierUnusable(file: file, what: "key identifier"))
    #expect(load(file, team: "a b") == .identifierUnusable(file: file, what: "team identifier"))
    try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: file)
    #expect(load(file) == .openToOthers(file: file, mode: 0o644))
    #expect(
      CredentialError.notTokenKey(file: "k.p8", found: "a certificate").description
        == "k.p8 holds a certificate, not a token signing key (a P-256 private key); "
        + "name the .p8 file from the developer account")
  }

  @Test("apps with the same key share its token; other keys and environments have their own")
  func registry() throws {
    let registry = ProviderTokenRegistry()
    let key = try key()
    let source = registry.source(for: key, environment: "production")
    #expect(registry.source(for: key, environment: "production") === source)
    #expect(registry.source(for: key, environment: "sandbox") !== source)
    // A replaced key: the same identifiers with another key, and another identifier.
    let replaced = try self.key()
    #expect(registry.source(for: replaced, environment: "production") !== source)
    #expect(
      registry.source(for: try .make(keyIdentifier: "XYZ", teamIdentifier: "DEF123GHIJ"), environment: "production")
        !== source)
    #expect(source.mintedCount == 0)
  }

  @Test("all callers on all threads get one token until a new one is due")
  func source() async throws {
    let key = try key()
    let source = ProviderTokenSource(key: key, environment: "production")
    let start = Instant(nanoseconds: 5)
    let time = time
    let tokens = await withTaskGroup(of: ProviderTokenSource.Lookup.self) { group in
      for _ in 0..<64 { group.addTask { source.token(now: start, unixSeconds: time) } }
      return await group.reduce(into: []) { $0.append($1) }
    }
    guard case .token(let first) = tokens[0] else {
      Issue.record("no token")
      return
    }
    #expect(tokens.allSatisfy { $0 == tokens[0] })
    #expect(source.mintedCount == 1)
    #expect(first.authorization.hasPrefix("bearer "))
    let made = try ProviderTokenText(parsing: Array(first.authorization.utf8.dropFirst("bearer ".utf8.count)))
    #expect(made.issuedAt == time - time % 1800)
    #expect(key.publicKey.verifies(made.signature, over: made.signingInput))
    let later = start + .seconds(46 * 60)
    guard case .token(let second) = source.token(now: later, unixSeconds: time + 46 * 60) else {
      Issue.record("no second token")
      return
    }
    #expect(second.generation == 2)
    #expect(second.authorization != first.authorization)
    #expect(source.mintedCount == 2)
    #expect(source.refused(.expired, generation: 1, date: nil, now: later, unixSeconds: time + 46 * 60) == .resend)
    #expect(source.mintedCount == 2)
    #expect(source.refused(.invalid, generation: 2, date: time, now: later, unixSeconds: time + 46 * 60) == .resend)
    #expect(source.clockCorrection == -46 * 60)
    guard case .token(let third) = source.token(now: later, unixSeconds: time + 46 * 60) else {
      Issue.record("no corrected token")
      return
    }
    let corrected = try ProviderTokenText(parsing: Array(third.authorization.utf8.dropFirst("bearer ".utf8.count)))
    #expect(corrected.issuedAt == time)
    source.accepted(generation: 3)
    #expect(source.refused(.expired, generation: 3, date: nil, now: later, unixSeconds: time + 46 * 60) == .resend)
    #expect(source.token(now: later, unixSeconds: time + 46 * 60) == .wait(until: later + .seconds(20 * 60)))
  }
}
