internal import PushWire

/// Why a certificate, key or passphrase cannot be used. Each description is one sentence that names
/// the file and the remedy.
package enum CredentialError: Error, Hashable, CustomStringConvertible {
  case unreadable(file: String, reason: String)
  case unwritable(file: String, reason: String)
  /// The file contains a private key, and its permission bits give other users access.
  case openToOthers(file: String, mode: UInt32)
  /// The first line of the file is secret, and its permission bits give other users access.
  case lineOpenToOthers(SecretLine, file: String, mode: UInt32)
  /// The first line of the file is too short or too long.
  case lineUnusable(SecretLine, file: String)
  /// Deriving the key from the passphrase would take too long. The file may come from anywhere, so
  /// the work has a limit.
  case derivationTooLong(file: String, rounds: Int64)
  /// Neither PEM nor PKCS#12 nor a DER certificate.
  case notRecognised(file: String)
  case certificateMissing(file: String)
  case keyMissing(file: String)
  case keyMismatch(certificateFile: String, keyFile: String)
  case passphraseMissing(file: String)
  /// The same of a credential in memory: `name` is a phrase.
  case passphraseNotGiven(for: String)
  case wrongPassphrase(file: String, passphraseFile: String)
  /// `on` is a date such as 2026-11-21 03:30:00 UTC.
  case expired(file: String, on: String)
  case notYetValid(file: String, until: String)
  /// The certificate is another app's.
  case topicNotCovered(file: String, topic: String, covered: [String])
  /// The file is well-formed, but OpenSSL cannot use its content or refuses to.
  case unsupported(file: String, reason: String)
  /// The file should contain a token signing key and contains something else: `found`, with an
  /// article.
  case notTokenKey(file: String, found: String)
  case tokenKeyEncrypted(file: String)
  /// `what` is "key identifier" or "team identifier".
  case identifierUnusable(file: String, what: String)
  /// OpenSSL failed where no input can cause it: out of memory, or a damaged installation.
  case broken(String)

  package var description: String { sentence.escapedForTerminal }

  private var sentence: String {
    switch self {
    case .unreadable(let file, let reason): "cannot read \(file): \(reason); check the path and its permissions"
    case .unwritable(let file, let reason): "cannot write \(file): \(reason); check the path and its permissions"
    case .openToOthers(let file, let mode):
      "\(file) holds a private key that other users can read (mode 0\(String(mode, radix: 8))); "
        + "run: chmod 600 \(Self.quoted(file))"
    case .lineOpenToOthers(let line, let file, let mode):
      "\(file) holds a \(line) that other users can read (mode 0\(String(mode, radix: 8))); "
        + "run: chmod 600 \(Self.quoted(file))"
    case .lineUnusable(let line, let file):
      "\(file) must have a \(line) in its first line, of \(line.byteCounts.lowerBound) to "
        + "\(line.byteCounts.upperBound) bytes"
    case .derivationTooLong(let file, let rounds):
      "\(file) needs at least \(rounds) rounds of key derivation, and the limit is \(DerivationBudget.roundLimit); "
        + "export it again with 600000 rounds for each key"
    case .notRecognised(let file):
      "\(file) is neither a PEM nor a PKCS#12 file; export the certificate with its key as .p12 or .pem"
    case .certificateMissing(let file):
      "\(file) holds no certificate; name the file with the certificate, and give a separate key file as the key"
    case .keyMissing(let file):
      "\(file) holds no private key; export the certificate together with its key, or name the key's file as well"
    case .topicNotCovered(let file, let topic, let covered):
      "\(file) is the certificate of \(covered.joined(separator: ", ")), not of \(topic); name the app's own "
        + "certificate, or correct the topic"
    case .keyMismatch(let certificate, let key):
      certificate == key
        ? "the private key in \(key) does not belong to any certificate there; "
          + "export certificate and key again together"
        : "the private key in \(key) does not belong to the certificate in \(certificate); "
          + "name the key that the certificate was requested with"
    case .passphraseMissing(let file):
      "\(file) is encrypted; put its passphrase into a file of its own and name that as the passphrase file"
    case .passphraseNotGiven(let name): "\(name) is encrypted; give its passphrase as well"
    case .wrongPassphrase(let file, let passphraseFile):
      "the passphrase in \(passphraseFile) does not open \(file); check that the two belong together"
    case .expired(let file, let date): "the certificate in \(file) expired on \(date); request a new one"
    case .notYetValid(let file, let date):
      "the certificate in \(file) is not valid before \(date); check this machine's clock"
    case .unsupported(let file, let reason):
      "OpenSSL cannot use \(file): \(reason); export it again with present-day algorithms"
    case .notTokenKey(let file, let found):
      "\(file) holds \(found), not a token signing key (a P-256 private key); "
        + "name the .p8 file from the developer account"
    case .tokenKeyEncrypted(let file):
      "the key in \(file) is encrypted; a token signing key must be unencrypted; "
        + "convert it with: openssl pkcs8 -topk8 -nocrypt"
    case .identifierUnusable(let file, let what):
      "the \(what) for \(file) must be 1 to 64 printable characters without spaces; usually it has ten"
    case .broken(let reason): "OpenSSL failed: \(reason); check its installation"
    }
  }

  /// A path in the shell's syntax.
  private static func quoted(_ path: String) -> String {
    let plain = path.utf8.allSatisfy { byte in
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"):
        true
      default: "/._-+@%,:".utf8.contains(byte)
      }
    }
    return plain
      ? path : "'" + path.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''") + "'"
  }
}
