internal import ArgumentParser
internal import Carillon
internal import Foundation
internal import PushTransport
internal import PushWire

struct CredentialCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "credential", abstract: "Shows and checks certificates and keys.", subcommands: [Inspect.self])

  struct Inspect: ParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Shows the topics, environment and expiry of a credential file, and what is wrong with it.",
      discussion: """
        Reads PEM, PKCS#12 (also as Keychain exports it), DER and token signing keys (.p8). Warns during the last \
        30 days before a certificate expires.

          carillon credential inspect news.p12 --passphrase-file news.pass
          carillon credential inspect AuthKey_ABC123DEFG.p8

        Exit status: 0 it can be used (there may be warnings), 1 it cannot be used (expired, the key belongs to \
        another certificate, other users can read the key), 2 it cannot be read.
        """)

    @Argument(help: "The credential: PEM, PKCS#12, DER or .p8.") var file: String
    @Option(help: .init("A file whose first line is the passphrase (default: none).", valueName: "file"))
    var passphraseFile: String?
    @Flag(help: "Prints one JSON object on standard output.") var json = false

    func run() throws {
      let now = Int64(Date().timeIntervalSince1970)
      let inspected = try failing {
        try InspectedCredential.load(file: file, passphraseFile: passphraseFile, at: now)
      }
      StandardStream.output.writeLine(json ? inspected.json(at: now) : CredentialReport.table(inspected, at: now))
      if inspected.findings.contains(where: \.isFatal) { throw ExitStatus.findings }
    }
  }
}

/// The table of `credential inspect`.
enum CredentialReport {
  static func table(_ inspected: InspectedCredential, at now: Int64) -> String {
    let rows =
      switch inspected {
      case .certificate(let inspection): Self.rows(inspection, at: now)
      case .tokenKey(let inspection): Self.rows(inspection)
      }
    let width = rows.map { $0.0.count }.max() ?? 0
    // Names in a certificate may hold control characters.
    var lines = rows.map { $0.0.padding(toLength: width + 2, withPad: " ", startingAt: 0) + $0.1.escapedForTerminal }
    lines += inspected.findings.map { "\($0.isFatal ? "Error" : "Warning"): \($0.description.asSentence)" }
    return lines.joined(separator: "\n")
  }

  private static func rows(_ inspection: TokenKeyInspection) -> [(String, String)] {
    let identifier = TokenKeyFile.keyIdentifier(inNameOf: inspection.file)
    var rows = [
      ("File", "\(inspection.file) (token signing key)"),
      ("Key", "\(inspection.keyType), signs provider tokens (ES256)"),
      ("Key ID", identifier ?? "not in the name of the file; the developer account shows it"),
      ("SHA-256", inspection.fingerprint),
    ]
    if let mode = inspection.octalMode { rows.append(("Permissions", mode)) }
    return rows
  }

  private static func rows(_ inspection: CredentialInspection, at now: Int64) -> [(String, String)] {
    let certificate = inspection.certificate
    let days = certificate.daysLeft(at: now)
    var rows: [(String, String)] = [
      ("File", "\(inspection.file) (\(inspection.format.rawValue))"), ("Subject", certificate.subject),
      ("Issuer", certificate.issuer),
      ("Topics", certificate.topics.isEmpty ? "none" : certificate.topics.joined(separator: ", ")),
    ]
    if !certificate.voipTopics.isEmpty { rows.append(("VoIP topics", certificate.voipTopics.joined(separator: ", "))) }
    let environments = certificate.environmentNames
    let (from, to) = (certificate.validity.lowerBound, certificate.validity.upperBound)
    rows += [
      ("Environment", environments.isEmpty ? "not named" : environments.joined(separator: ", ")),
      (
        "Valid",
        "\(CertificateInspection.date(from)) to \(CertificateInspection.date(to)), "
          + "\(days >= 0 ? "\(days) days left" : "expired")"
      ), ("Key", key(inspection)), ("Serial", certificate.serial), ("SHA-256", certificate.sha256),
    ]
    if certificate.topics.isEmpty, !certificate.serverNames.isEmpty {
      rows.append(("Server names", certificate.serverNames.joined(separator: ", ")))
    }
    if !inspection.chain.isEmpty { rows.append(("Chain", inspection.chain.joined(separator: "; "))) }
    return rows
  }

  private static func key(_ inspection: CredentialInspection) -> String {
    let type = inspection.certificate.keyType
    return switch inspection.key {
    case .none: "\(type), not in this file"
    case .matches: "\(type), belongs to the certificate"
    case .doesNotMatch: "belongs to another certificate"
    case .notOpened: "\(type), encrypted"
    }
  }
}
