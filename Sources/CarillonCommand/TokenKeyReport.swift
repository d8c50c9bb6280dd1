internal import Carillon
internal import Foundation
internal import PushTransport

/// The table of `credential inspect` for a token signing key.
enum TokenKeyReport {
  /// Reads the key. Nil if the file holds no token key, and is not named like one.
  static func inspection(of file: String) throws -> TokenKeyInspection? {
    do throws(CredentialError) { return try TokenKeyInspection.load(file: file) } catch {
      switch error {
      case .notTokenKey where !file.lowercased().hasSuffix(".p8"): return nil
      default: throw CommandFailure.describing(error)
      }
    }
  }

  static func table(_ inspection: TokenKeyInspection) -> String {
    var rows: [(String, String)] = [
      ("File", "\(inspection.file) (token signing key)"),
      ("Key", "\(inspection.keyType), signs provider tokens (ES256)"),
      ("Key ID", keyIdentifier(inspection) ?? "not in the name of the file; the developer account shows it"),
      ("SHA-256", inspection.fingerprint),
    ]
    if let mode = inspection.mode { rows.append(("Permissions", octal(mode))) }
    let width = rows.map { $0.0.count }.max() ?? 0
    var lines = rows.map { $0.0.padding(toLength: width + 2, withPad: " ", startingAt: 0) + $0.1 }
    lines += inspection.findings.map { "\($0.isFatal ? "Error" : "Warning"): \($0.description.asSentence)" }
    return lines.joined(separator: "\n")
  }

  private static func keyIdentifier(_ inspection: TokenKeyInspection) -> String? {
    TokenKeyFile.keyIdentifier(inNameOf: inspection.file)
  }

  private static func octal(_ mode: UInt32) -> String { "0" + String(mode, radix: 8) }
}
