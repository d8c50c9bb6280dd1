internal import Foundation
internal import Testing

@testable internal import PushTransport

@Suite("Credentials")
struct CredentialTests {
  private func failure(_ files: CredentialFiles, validAt time: Int64? = now) -> CredentialError? {
    do throws(CredentialError) {
      _ = try Credential.load(files, validAt: time)
      return nil
    } catch { return error }
  }

  @Test(
    "PEM with the key in its own file or in the same file loads, for EC and RSA keys",
    arguments: CertificateRequest.KeyAlgorithm.allCases)
  func pem(algorithm: CertificateRequest.KeyAlgorithm) throws {
    let material = try Material()
    var request = CertificateRequest.app(topic: "com.example.a", at: now)
    request.keyAlgorithm = algorithm
    let issued = try material.authority.issue(request)
    let (separate, key, joined) = (
      material.directory.file("a.pem"), material.directory.file("a.key"), material.directory.file("both.pem")
    )
    try issued.writePEM(certificate: separate, key: key)
    try issued.writePEM(certificate: joined, key: joined)
    for files in [CredentialFiles(certificate: separate, key: key), CredentialFiles(certificate: joined)] {
      let credential = try Credential.load(files, validAt: now)
      #expect(credential.inspection.topics == ["com.example.a"])
      #expect(credential.inspection.keyType == (algorithm == .ecP256 ? "EC prime256v1" : "RSA 2048"))
    }
    #expect(failure(CredentialFiles(certificate: separate)) == .keyMissing(file: separate))
    #expect(failure(CredentialFiles(certificate: key)) == .certificateMissing(file: key))
  }

  @Test("the certificate of the key comes first, wherever it stands in the file")
  func leafIsFound() throws {
    let material = try Material()
    let path = material.directory.file("app.pem")
    try material.app.writePEM(certificate: path, key: path)
    let both =
      try String(contentsOfFile: material.authorityFile, encoding: .utf8)
      + String(contentsOfFile: path, encoding: .utf8)
    let credential = try Credential.load(
      CredentialFiles(certificate: try material.directory.write(both, to: "reversed.pem")), validAt: now)
    #expect(credential.inspection == material.app.credential.inspection)
    #expect(credential.chain.count == 1)
  }

  @Test("an encrypted key opens with its passphrase, and every other case has a clear error")
  func encryptedKey() throws {
    let material = try Material()
    let (certificate, key) = (material.directory.file("a.pem"), material.directory.file("a.key"))
    try material.app.writePEM(certificate: certificate, key: key, passphrase: "opén sesame")
    let right = try material.directory.write("opén sesame\nsecond line\n", to: "right.pass")
    let wrong = try material.directory.write("open sesame", to: "wrong.pass")
    _ = try Credential.load(CredentialFiles(certificate: certificate, key: key, passphraseFile: right), validAt: now)
    #expect(failure(CredentialFiles(certificate: certificate, key: key)) == .passphraseMissing(file: key))
    let refused = failure(CredentialFiles(certificate: certificate, key: key, passphraseFile: wrong))
    #expect(refused == .wrongPassphrase(file: key, passphraseFile: wrong))
    #expect(refused?.description.contains(wrong) == true)
    #expect(refused?.description.contains(key) == true)
  }

  @Test(
    "our PKCS#12 opens, modern and legacy, and refuses a wrong or missing passphrase",
    arguments: IssuedCertificate.PKCS12Encryption.allCases)
  func pkcs12(encryption: IssuedCertificate.PKCS12Encryption) throws {
    let material = try Material()
    let path = material.directory.file("a.p12")
    try material.app.writePKCS12(to: path, passphrase: "secret", encryption: encryption)
    let right = try material.directory.write("secret\r\n", to: "right.pass")
    let wrong = try material.directory.write("Secret\n", to: "wrong.pass")
    let credential = try Credential.load(CredentialFiles(certificate: path, passphraseFile: right), validAt: now)
    #expect(credential.inspection == material.app.credential.inspection)
    #expect(credential.chain.count == 1)
    // The key works in the default library context, which TLS uses.
    _ = try TLSContext(client: TLSClientConfiguration(credential: credential, trust: material.trust))
    #expect(
      failure(CredentialFiles(certificate: path, passphraseFile: wrong))
        == .wrongPassphrase(file: path, passphraseFile: wrong))
    #expect(failure(CredentialFiles(certificate: path)) == .passphraseMissing(file: path))
  }

  @Test("PKCS#12 of the openssl command opens: modern, -legacy (RC2-40), and 3DES without a passphrase")
  func pkcs12FromCommand() throws {
    let material = try Material()
    let (certificate, key) = (material.directory.file("a.pem"), material.directory.file("a.key"))
    try material.app.writePEM(certificate: certificate, key: key)
    let pass = try material.directory.write("geheim\n", to: "a.pass")
    // With RC2-40 for the key too, unlike Keychain's exports.
    let rc2 = ["-legacy", "-keypbe", "PBE-SHA1-RC2-40", "-certpbe", "PBE-SHA1-RC2-40"]
    let encryptions = [
      ("modern", []), ("legacy", ["-legacy"]),
      ("3des", ["-keypbe", "PBE-SHA1-3DES", "-certpbe", "PBE-SHA1-3DES", "-macalg", "sha1"]),
      ("rc2", rc2), ("rc2-key", ["-legacy", "-keypbe", "PBE-SHA1-RC2-40", "-certpbe", "NONE"]),
    ]
    for (name, options) in encryptions {
      let path = material.directory.file("\(name).p12")
      try OpenSSLCommand.run(
        ["pkcs12", "-export", "-in", certificate, "-inkey", key, "-out", path, "-passout", "file:\(pass)"] + options)
      let credential = try Credential.load(CredentialFiles(certificate: path, passphraseFile: pass), validAt: now)
      #expect(credential.inspection.topics == ["com.example.news"], "\(name)")
    }
    for options in [[], ["-legacy"], rc2] {
      let open = material.directory.file("open.p12")
      try OpenSSLCommand.run(
        ["pkcs12", "-export", "-in", certificate, "-inkey", key, "-out", open, "-passout", "pass:"] + options)
      _ = try Credential.load(CredentialFiles(certificate: open), validAt: now)
    }
    // A container with certificates only.
    let bare = material.directory.file("bare.p12")
    try OpenSSLCommand.run([
      "pkcs12", "-export", "-nokeys", "-in", certificate, "-out", bare, "-passout", "file:\(pass)",
    ])
    #expect(failure(CredentialFiles(certificate: bare, passphraseFile: pass)) == .keyMissing(file: bare))
  }

  @Test("our legacy PKCS#12 can be read by the openssl command only with -legacy")
  func legacyIsLegacy() throws {
    let material = try Material()
    let path = material.directory.file("a.p12")
    try material.app.writePKCS12(to: path, passphrase: "secret", encryption: .legacy)
    let text = try OpenSSLCommand.run(["pkcs12", "-in", path, "-legacy", "-info", "-noout", "-passin", "pass:secret"])
    #expect(text.contains("pbeWithSHA1And40BitRC2-CBC"))
    #expect(throws: (any Error).self) {
      try OpenSSLCommand.run(["pkcs12", "-in", path, "-noout", "-passin", "pass:secret"])
    }
  }

  @Test("a secret of the system that a group of the process may read is closed to others; everything else is open")
  func groups() {
    func isOpen(_ mode: UInt32, owner: UInt32 = 0, group: UInt32 = 7) -> Bool {
      SecretFile.isOpenToOthers(mode: mode, owner: owner, group: group, ownGroups: [0, 7])
    }
    for mode in [0o400, 0o600, 0o440, 0o640] as [UInt32] { #expect(!isOpen(mode)) }
    for mode in [0o444, 0o460, 0o450, 0o660, 0o644] as [UInt32] { #expect(isOpen(mode)) }
    // Another group; a file of a user; the group that every process of root has.
    #expect(isOpen(0o440, group: 8))
    #expect(isOpen(0o440, owner: 1_000))
    #expect(isOpen(0o440, group: 0))
    #expect(!isOpen(0o400, owner: 1_000))
  }

  @Test("a key that others can read is refused with the chmod command to run", arguments: [0o644, 0o640, 0o604, 0o620])
  func openToOthers(mode: Int) throws {
    let material = try Material()
    let (certificate, key, container) = (
      material.directory.file("a.pem"), material.directory.file("a key"), material.directory.file("a.p12")
    )
    let pass = try material.directory.write("secret\n", to: "a.pass")
    try material.app.writePEM(certificate: certificate, key: key)
    try material.app.writePKCS12(to: container, passphrase: "secret")
    for path in [key, container] {
      try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
    }
    let refused = failure(CredentialFiles(certificate: certificate, key: key))
    #expect(refused == .openToOthers(file: key, mode: UInt32(mode)))
    #expect(refused?.description.hasSuffix("run: chmod 600 '\(key)'") == true)
    #expect(
      failure(CredentialFiles(certificate: container, passphraseFile: pass))
        == .openToOthers(file: container, mode: UInt32(mode)))
  }

  @Test(
    "a passphrase file that others can read is refused like a key file, and is a finding of an inspection",
    arguments: [0o644, 0o640, 0o604, 0o620])
  func passphraseOpenToOthers(mode: Int) throws {
    let material = try Material()
    let (container, pem) = (material.directory.file("a.p12"), material.directory.file("a.pem"))
    let pass = try material.directory.write("secret\n", to: "a pass", mode: mode)
    try material.app.writePKCS12(to: container, passphrase: "secret")
    try material.app.writePEM(certificate: pem, key: pem, passphrase: "secret")
    for file in [container, pem] {
      let refused = failure(CredentialFiles(certificate: file, passphraseFile: pass))
      #expect(refused == .lineOpenToOthers(.passphrase, file: pass, mode: UInt32(mode)))
      #expect(
        refused?.description
          == "\(pass) holds a passphrase that other users can read (mode 0\(String(mode, radix: 8))); "
          + "run: chmod 600 '\(pass)'"
      )
      let found = try CredentialInspection.load(file: file, passphraseFile: pass, at: now)
      #expect(found.key == .matches)
      let finding = try #require(found.findings.first)
      #expect(finding == .passphraseOpenToOthers(file: pass, mode: UInt32(mode)))
      #expect(finding.isFatal)
    }
  }

  @Test(
    "a file that demands too much key derivation is refused before any of it, wherever it demands it",
    .timeLimit(.minutes(20)),
    arguments: [
      ["-iter", "16000000", "-nomac"], ["-iter", "16000000", "-legacy", "-nomac"], ["-iter", "16000000"],
      ["-keypbe", "PBE-SHA1-3DES", "-certpbe", "NONE", "-nomac", "-iter", "16000000"],
    ])
  func derivation(options: [String]) throws {
    let material = try Material()
    let (pem, container) = (material.directory.file("a.pem"), material.directory.file("a.p12"))
    let pass = try material.directory.write("x\n", to: "a.pass")
    try material.app.writePEM(certificate: pem, key: pem)
    // Making such a file takes as long as reading it. So it is made with a smaller number of the
    // same length, which is then replaced.
    let few = options.map { $0 == "16000000" ? "1000001" : $0 }
    try OpenSSLCommand.run(["pkcs12", "-export", "-in", pem, "-out", container, "-passout", "file:\(pass)"] + few)
    try Self.exchange([0x02, 0x03, 0x0F, 0x42, 0x41], for: [0x02, 0x03, 0x7F, 0xFF, 0xFF], in: container)
    let refused = failure(CredentialFiles(certificate: container, passphraseFile: pass))
    guard case .derivationTooLong(container, let rounds) = refused, rounds >= 0x7F_FFFF else {
      Issue.record("\(String(describing: refused))")
      return
    }
    #expect(refused?.description.contains("the limit is 3000000; export it again") == true)
    #expect(throws: CredentialError.derivationTooLong(file: container, rounds: rounds)) {
      try CredentialInspection.load(file: container, passphraseFile: pass, at: now)
    }
  }

  @Test("an encrypted PEM key has the same bound, with scrypt too")
  func derivationOfKey() throws {
    let material = try Material()
    let (pem, plain, key) = (
      material.directory.file("a.pem"), material.directory.file("plain.key"), material.directory.file("a.key")
    )
    let pass = try material.directory.write("x\n", to: "a.pass")
    try material.app.writePEM(certificate: pem, key: plain)
    let command = ["pkcs8", "-topk8", "-in", plain, "-out", key, "-passout", "file:\(pass)"]
    let files = CredentialFiles(certificate: pem, key: key, passphraseFile: pass)
    for options in [["-iter", "4000000"], ["-scrypt", "-scrypt_N", "16384", "-scrypt_r", "8", "-scrypt_p", "32"]] {
      try OpenSSLCommand.run(command + options)
      try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: key)
      guard case .derivationTooLong(key, _) = failure(files) else {
        Issue.record("\(options): \(String(describing: failure(files)))")
        continue
      }
    }
    for options in [["-iter", "600000"], ["-scrypt"]] {
      try OpenSSLCommand.run(command + options)
      try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: key)
      #expect(failure(files) == nil, "\(options)")
    }
  }

  private static func exchange(_ old: [UInt8], for new: [UInt8], in file: String) throws {
    var data = try Data(contentsOf: URL(filePath: file))
    var count = 0
    while let range = data.firstRange(of: Data(old)) {
      data.replaceSubrange(range, with: new)
      count += 1
    }
    try #require(count > 0)
    try data.write(to: URL(filePath: file))
    try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file)
  }

  @Test("a foreign key, an expired, a future, a missing, an unreadable and a garbage file each have their error")
  func otherErrors() throws {
    let material = try Material()
    let (certificate, key, otherKey) = (
      material.directory.file("a.pem"), material.directory.file("a.key"), material.directory.file("b.key")
    )
    try material.app.writePEM(certificate: material.directory.file("b.pem"), key: otherKey)
    try material.authority.issue(.app(topic: "com.example.b", at: now)).writePEM(certificate: certificate, key: key)
    #expect(
      failure(CredentialFiles(certificate: certificate, key: otherKey))
        == .keyMismatch(certificateFile: certificate, keyFile: otherKey))

    let end = CertificateRequest.lasting(from: now).upperBound
    let expired = failure(CredentialFiles(certificate: certificate, key: key), validAt: end + 10)
    #expect(expired?.description.hasPrefix("the certificate in \(certificate) expired on 20") == true)
    #expect(
      failure(CredentialFiles(certificate: certificate, key: key), validAt: now - 86_400)?.description.contains(
        "not valid before") == true)
    #expect(failure(CredentialFiles(certificate: certificate, key: key), validAt: nil) == nil)

    let missing = material.directory.file("none.pem")
    #expect(
      failure(CredentialFiles(certificate: missing)) == .unreadable(file: missing, reason: "No such file or directory"))
    #expect(
      failure(CredentialFiles(certificate: material.directory.path))
        == .unreadable(file: material.directory.path, reason: "it is a directory"))
    for (name, text) in [("garbage", "this is no certificate"), ("empty", "")] {
      let path = try material.directory.write(text, to: name)
      #expect(failure(CredentialFiles(certificate: path)) == .notRecognised(file: path))
    }
    let damaged = try material.directory.write(
      "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", to: "damaged.pem")
    guard case .unsupported = failure(CredentialFiles(certificate: damaged)) else {
      Issue.record("a damaged certificate was accepted")
      return
    }
  }

  @Test("a trust file that is missing or contains no certificate is an error that names it")
  func trustFile() throws {
    let material = try Material()
    let missing = material.directory.file("none.pem")
    #expect(throws: CredentialError.unreadable(file: missing, reason: "No such file or directory")) {
      try material.clientContext(trust: .file(missing))
    }
    let empty = try material.directory.write("nothing", to: "empty.pem")
    #expect(throws: CredentialError.certificateMissing(file: empty)) { try material.clientContext(trust: .file(empty)) }
    _ = try material.clientContext(trust: .system)
  }
}
