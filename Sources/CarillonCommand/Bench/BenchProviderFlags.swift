internal import ArgumentParser
internal import Carillon
internal import PushBench
internal import PushServer
internal import PushWire

/// The flags of `bench` that speak of HTTP/2: a token key instead of a certificate, and the topic.
struct BenchProviderFlags: ParsableArguments {
  @Option(
    help: ArgumentHelp(
      "With --gateway: the app's bundle identifier (default: what the certificate says; needed with --token-key).",
      valueName: "bundle"))
  var topic: String?
  @Option(help: ArgumentHelp("With --gateway: the token signing key, instead of a certificate.", valueName: "file.p8"))
  var tokenKey: String?
  @Option(help: ArgumentHelp("The key's ten characters (default: those in the name AuthKey_….p8).", valueName: "id"))
  var keyID: String?
  @Option(help: ArgumentHelp("The team's ten characters; needed with --token-key.", valueName: "id"))
  var teamID: String?

  var given: [String] {
    [("--topic", topic), ("--token-key", tokenKey), ("--key-id", keyID), ("--team-id", teamID)].compactMap {
      $1 == nil ? nil : $0
    }
  }

  /// - Parameter hasCertificate: by a flag of its own.
  func check(hasCertificate: Bool) throws {
    guard tokenKey != nil else {
      for (flag, value) in [("--key-id", keyID), ("--team-id", teamID)] where value != nil {
        throw ValidationError("\(flag) needs --token-key FILE.")
      }
      return
    }
    if hasCertificate {
      throw ValidationError("--certificate and --token-key exclude each other: each says who sends.")
    }
    guard teamID != nil else {
      throw ValidationError("--token-key needs --team-id ID: the ten characters of the team.")
    }
    guard keyIdentifier != nil else {
      throw ValidationError("--token-key needs --key-id ID, as its name is not like AuthKey_ABC123DEFG.p8.")
    }
    guard topic != nil else {
      throw ValidationError("--token-key needs --topic BUNDLE: a key does not say which app it is for.")
    }
  }

  private var keyIdentifier: String? { keyID ?? tokenKey.flatMap(TokenKeyFile.keyIdentifier) }

  /// The token key that the flags name.
  var tokenKeyFile: TokenKeyFile? {
    guard let tokenKey, let keyIdentifier, let teamID else { return nil }
    return TokenKeyFile(file: tokenKey, keyIdentifier: keyIdentifier, teamIdentifier: teamID)
  }
}

/// The variables of the transports, and which flags have a meaning with them.
struct BenchTransports {
  let transports: [AppSettings.Transport]

  init(_ text: String) throws {
    transports = try BenchFlags.list(text, flag: "--transport", example: "binary,http2", AppSettings.Transport.init)
  }

  /// Flags that only the binary protocol has a use for.
  func refuseWithoutBinary(_ flags: [(String, Bool)]) throws {
    guard !transports.contains(.binary) else { return }
    for (flag, isGiven) in flags where isGiven {
      throw ValidationError("\(flag) needs --transport binary: HTTP/2 knows nothing of the kind.")
    }
  }

  func refuseWithoutHTTP2(_ flags: [String]) throws {
    guard !transports.contains(.http2), let flag = flags.first else { return }
    throw ValidationError("\(flag) needs --transport http2.")
  }

  func streams(_ text: String?) throws -> [Int] {
    guard let text else { return BenchSweep().streams }
    try refuseWithoutHTTP2(["--streams"])
    let values = try BenchFlags.counts(text, flag: "--streams", in: 1...RequestPolicy.streamCountLimit)
    guard values.count == 1 || transports.first == .http2 else {
      throw ValidationError(
        "--streams takes several values only if --transport begins with http2, which the other variables are "
          + "measured with."
      )
    }
    return values
  }
}
