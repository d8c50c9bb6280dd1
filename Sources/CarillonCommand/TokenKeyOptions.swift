internal import ArgumentParser
internal import Carillon

/// The flags that name a token key.
struct TokenKeyOptions: ParsableArguments {
  @Option(
    help: .init("The token signing key from the developer account, instead of a certificate.", valueName: "file.p8"))
  var tokenKey: String?
  @Option(help: .init("The key's ten characters (default: those in the name AuthKey_….p8).", valueName: "id"))
  var keyID: String?
  @Option(help: .init("The team's ten characters; needed with --token-key.", valueName: "id")) var teamID: String?

  var isGiven: Bool { tokenKey != nil }
  var given: [(String, Bool)] {
    [("--token-key", tokenKey != nil), ("--key-id", keyID != nil), ("--team-id", teamID != nil)]
  }

  /// - Parameter who: what the holder of the key does.
  func check(hasCertificate: Bool, hasTopic: Bool, who: String = "sends") throws {
    guard isGiven else {
      for (flag, isGiven) in given where isGiven { throw ValidationError("\(flag) needs --token-key FILE.") }
      return
    }
    if hasCertificate {
      throw ValidationError("--certificate and --token-key exclude each other: each says who \(who).")
    }
    guard teamID != nil else {
      throw ValidationError("--token-key needs --team-id ID: the ten characters of the team.")
    }
    guard keyIdentifier != nil else {
      throw ValidationError("--token-key needs --key-id ID, as its name is not like AuthKey_ABC123DEFG.p8.")
    }
    guard hasTopic else {
      throw ValidationError("--token-key needs --topic BUNDLE: a key does not say which app it is for.")
    }
  }

  private var keyIdentifier: String? { keyID ?? tokenKey.flatMap(TokenKeyFile.keyIdentifier) }

  /// The key, when it is named completely.
  var file: TokenKeyFile? {
    guard let tokenKey, let keyIdentifier, let teamID else { return nil }
    return TokenKeyFile(file: tokenKey, keyIdentifier: keyIdentifier, teamIdentifier: teamID)
  }
}
