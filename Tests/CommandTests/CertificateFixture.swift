internal import Foundation
internal import PushTransport
internal import Support

/// Certificates for one test.
struct CertificateFixture {
  static let topic = "com.example.news"
  /// A name of the server that no resolver of this machine knows.
  static let unknownName = "gateway.carillon.test"
  let files: CertificateMaker.Files

  init(in place: Workplace) throws {
    files = try CertificateMaker.makeAll(
      in: place.path("certs"), topics: [Self.topic], serverNames: [Self.unknownName],
      at: Int64(Date().timeIntervalSince1970))
  }

  /// The simulator's flags for these certificates.
  var server: [String] {
    ["--certificate", files.server.certificate, "--key", files.server.key ?? "", "--client-ca", files.authority]
  }

  /// The flags of a sender or feedback reader for these certificates.
  var client: [String] {
    let app = files.apps[Self.topic] ?? CredentialFiles(certificate: "")
    return ["--certificate", app.certificate, "--key", app.key ?? "", "--trust", files.authority]
  }
}
