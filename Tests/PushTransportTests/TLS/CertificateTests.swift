internal import Foundation
internal import PushWire
internal import Support
internal import Testing

@testable internal import PushTransport

@Suite("Certificates")
struct CertificateTests {
  @Test("an inspection shows subject, topics, environments, dates and fingerprint as the openssl command does")
  func inspection() throws {
    let material = try Material()
    var request = CertificateRequest.app(topic: "com.example.news", at: now)
    request.topics = ["com.example.news", "com.example.news.voip", "com.example.news.complication"]
    request.voipTopics = ["com.example.news.voip"]
    request.environments = [.production]
    request.keyAlgorithm = .rsa2048
    let issued = try material.authority.issue(request)
    let path = material.directory.file("a.pem")
    try issued.writePEM(certificate: path, key: path)
    let found = try CredentialInspection.load(file: path, at: now)
    let certificate = found.certificate
    #expect(found.format == .pem)
    #expect(found.key == .matches)
    #expect(found.findings.isEmpty)
    #expect(certificate.userIdentifier == "com.example.news")
    #expect(certificate.topics == request.topics)
    #expect(certificate.voipTopics == request.voipTopics)
    #expect(certificate.environments == [.production])
    #expect(certificate.validity == request.validity)
    #expect(certificate.keyType == "RSA 2048")
    #expect(certificate.subject == "UID=com.example.news, CN=Apple Push Services: com.example.news")
    #expect(certificate.issuer == "CN=Carillon throw-away authority")

    let text = try OpenSSLCommand.run(["x509", "-in", path, "-noout", "-fingerprint", "-sha256", "-serial"])
    #expect(text.lowercased().replacingOccurrences(of: ":", with: "").contains(certificate.sha256))
    #expect(text.lowercased().contains("serial=\(certificate.serial)"))
    let check = try OpenSSLCommand.run([
      "verify", "-x509_strict", "-purpose", "sslclient", "-CAfile", material.authorityFile, path,
    ])
    #expect(check.contains(": OK"))
  }

  @Test("a warning of expiry comes 30 days before it, not 31; an expired certificate is a finding, not an error")
  func expiry() throws {
    let material = try Material()
    let path = material.directory.file("a.pem")
    try material.app.writePEM(certificate: path, key: path)
    let end = material.app.credential.inspection.validity.upperBound
    func findings(daysBefore: Int64) throws -> [CredentialFinding] {
      try CredentialInspection.load(file: path, at: end - daysBefore * 86_400 - 1).findings
    }
    #expect(try findings(daysBefore: 30) == [.noEnvironment])
    #expect(try findings(daysBefore: 29) == [.expiresSoon(daysLeft: 29, on: end), .noEnvironment])
    #expect(try findings(daysBefore: -1) == [.expired(on: end), .noEnvironment])
    #expect(material.app.credential.inspection.daysLeft(at: end + 1) == -1)
  }

  @Test("an inspection opens PKCS#12 and DER, and reports open permissions and foreign keys")
  func formats() throws {
    let material = try Material()
    let (container, pem, der) = (
      material.directory.file("a.p12"), material.directory.file("a.pem"), material.directory.file("a.cer")
    )
    let pass = try material.directory.write("x\n", to: "a.pass")
    try material.app.writePKCS12(to: container, passphrase: "x", encryption: .legacy)
    let opened = try CredentialInspection.load(file: container, passphraseFile: pass, at: now)
    #expect(opened.format == .pkcs12)
    #expect(opened.key == .matches)
    #expect(opened.chain == ["CN=Carillon throw-away authority"])
    #expect(throws: CredentialError.passphraseMissing(file: container)) {
      try CredentialInspection.load(file: container, at: now)
    }

    try material.app.writePEM(certificate: pem, key: pem, passphrase: "y")
    #expect(try CredentialInspection.load(file: pem, at: now).key == .notOpened)
    try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: pem)
    #expect(try CredentialInspection.load(file: pem, at: now).findings.first == .openToOthers(file: pem, mode: 0o644))

    try OpenSSLCommand.run(["x509", "-in", pem, "-outform", "DER", "-out", der])
    let bare = try CredentialInspection.load(file: der, at: now)
    #expect(bare.format == .der)
    #expect(bare.findings.contains(.noKey))
    #expect(bare.certificate.topics == ["com.example.news"])
  }

  @Test("a set of files for a simulator verifies, and only the owner can read its keys")
  func makeAll() throws {
    let scratch = try Scratch()
    let files = try CertificateMaker.makeAll(
      in: scratch.file("certificates"), topics: ["com.example.a", "../evil"],
      serverNames: ["push.example.com", "10.1.2.3"], at: now)
    let server = try Credential.load(files.server, validAt: now)
    #expect(server.inspection.serverNames == ["localhost", "127.0.0.1", "::1", "push.example.com", "10.1.2.3"])
    for set in [files.apps, files.appContainers] {
      #expect(set.count == 2)
      for (topic, app) in set { #expect(try Credential.load(app, validAt: now).inspection.topics == [topic]) }
    }
    for name in try FileManager.default.contentsOfDirectory(atPath: scratch.file("certificates"))
    where !name.hasSuffix(".pem") {
      let attributes = try FileManager.default.attributesOfItem(atPath: scratch.file("certificates/" + name))
      #expect(attributes[.posixPermissions] as? Int == 0o600, "\(name)")
    }
    try OpenSSLCommand.run([
      "verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", files.authority, files.server.certificate,
    ])
  }

  @Test(
    "dates are written as the calendar has them",
    arguments: [
      (0, "1970-01-01 00:00:00 UTC"), (951_782_400, "2000-02-29 00:00:00 UTC"),
      (4_107_542_399, "2100-02-28 23:59:59 UTC"), (-1, "1969-12-31 23:59:59 UTC"),
    ] as [(Int64, String)])
  func dates(seconds: Int64, text: String) {
    #expect(CivilTime.describe(seconds) == text)
  }

  @Test("topics are read from any bytes without harm, and exactly from what we encode")
  func topicsExtension() {
    let long = (0..<40).map { "com.example.app-\($0).with.a.long.name" }
    #expect(AppleExtension.topics(AppleExtension.encode(topics: long, kind: "app")) == long)
    let seed = SeededGenerator.freshSeed()
    var random = Seeded(seed: seed)
    let good = AppleExtension.encode(topics: ["a", "bc"], kind: "app")
    for _ in 0..<2000 {
      var bytes = good
      bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
      bytes.removeLast(Int.random(in: 0..<bytes.count, using: &random))
      #expect(AppleExtension.topics(bytes).count <= bytes.count, "seed \(seed)")
    }
  }

  @Test("SHA-256 of the empty string and of abc are the known values")
  func digest() {
    #expect(Digest.hexadecimal(Digest.sha256([])) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
    #expect(
      Digest.hexadecimal(Digest.sha256(Array("abc".utf8)))
        == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
  }
}
