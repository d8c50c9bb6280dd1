internal import PushStore

/// Why a host could not be used, in a sentence that says what to do. libpq gives no SQLSTATE for
/// a connection that was refused, only the server's words, in the server's language.
struct PostgreSQLRefusal {
  let text: String
  /// It does not go away by itself.
  var isFinal = true

  /// - Parameter words: of libpq, on one line.
  init(_ host: PostgreSQLSettings.Host, _ words: String, _ settings: PostgreSQLSettings) {
    let (name, user, database) = (host.text, settings.user, settings.database)
    let trust = settings.authorities.map { "the authorities in \($0)" } ?? "the system's authorities"
    switch words {
    case _ where words.contains("password authentication failed"):
      text = "\(name) refuses the password of the user \(user); put the right one into password-file"
    case _ where words.contains("no password supplied"):
      text = "\(name) asks for a password of the user \(user); name a file that has it in password-file"
    case _ where words.contains("certificate verify failed"):
      text = "the certificate of \(name) has expired, or none of \(trust) has signed it; name its authority in trust"
    case _ where words.contains("does not match host name"):
      text = "the certificate of \(name) is for another name; dial a name that it has, such as \(Self.firstName(words))"
    case _ where words.contains("server does not support SSL"):
      text = "\(name) has no TLS; turn it on there (ssl = on), or set tls: disable"
    case _ where words.contains("root certificate file"):
      text = "the certificate of \(name) cannot be verified: \(Self.cause(words)); name its authority in trust"
    case _ where words.contains("no pg_hba.conf entry") && words.contains("no encryption") && !settings.encrypts(host):
      text = "\(name) may let the user \(user) in over TLS only; set tls: verify-full, or add to its pg_hba.conf"
    case _ where words.contains("no pg_hba.conf entry"):
      text = "\(name) does not let the user \(user) in from here; add an entry to its pg_hba.conf"
    case _ where words.contains("does not exist"):
      text = "\(name): \(Self.cause(words)); create the database \(database) and the user \(user) there"
    case _ where words.contains("permission denied"):
      text = "\(name): \(Self.cause(words)); grant the user \(user) CONNECT on the database \(database)"
    case _ where words.contains("session is read-only"):
      (text, isFinal) = ("\(name) is a standby", false)
    default:
      (text, isFinal) = ("\(name): \(Self.cause(words))", false)
    }
  }

  init(_ text: String) { (self.text, isFinal) = (text, false) }

  /// Behind what libpq says about the connection: of the last address, if the name has several.
  private static func cause(_ words: String) -> String {
    var rest = words[...]
    for start in ["failed: ", "FATAL: ", "error: "] {
      if let range = words.ranges(of: start).last, range.upperBound > rest.startIndex {
        rest = words[range.upperBound...]
      }
    }
    return String(rest.trimmingPrefix { $0 == " " })
  }

  /// Of `server certificate for "a" (and 1 other name) does not match host name "b"`, with quotes.
  private static func firstName(_ words: String) -> String {
    let parts = words.split(separator: "\"", omittingEmptySubsequences: false)
    guard let index = parts.firstIndex(where: { $0.hasSuffix("certificate for ") }), index + 1 < parts.count else {
      return "those of `openssl s_client -starttls postgres`"
    }
    return "\"\(parts[index + 1])\""
  }
}
