internal import ArgumentParser
internal import Carillon

struct TokenKeyOptions: ParsableArguments {
  @Option(
    help: .init("The token signing key from the developer account, in place of a certificate.", valueName: "file.p8"))
  var tokenKey: String?
  @Option(
    help: .init("The key identifier, ten characters (default: from the file name AuthKey_….p8).", valueName: "id"))
  var keyID: String?
  @Option(help: .init("The team identifier, ten characters; needed with --token-key.", valueName: "id")) var teamID:
    String?

  var isGiven: Bool { tokenKey != nil }
  var given: [(String, Bool)] {
    [("--token-key", tokenKey != nil), ("--key-id", keyID != nil), ("--team-id", teamID != nil)]
  }

  func check(hasCertificate: Bool, hasTopic: Bool) throws {
    guard isGiven else { return try Options.require("--token-key FILE", for: given) }
    try Options.exclude(
      [("--certificate", hasCertificate)], "--token-key", because: "each is a credential, and only one is used")
    guard teamID != nil else {
      throw ValidationError("--token-key needs --team-id ID, the ten characters of the team.")
    }
    guard keyIdentifier != nil else {
      throw ValidationError("--token-key needs --key-id ID, because the file name is not like AuthKey_ABC123DEFG.p8.")
    }
    guard hasTopic else {
      throw ValidationError("--token-key needs --topic BUNDLE, because a key does not name an app.")
    }
  }

  private var keyIdentifier: String? { keyID ?? tokenKey.flatMap(TokenKeyFile.keyIdentifier) }

  /// The key, if all three parts are known.
  var file: TokenKeyFile? {
    guard let tokenKey, let keyIdentifier, let teamID else { return nil }
    return TokenKeyFile(file: tokenKey, keyIdentifier: keyIdentifier, teamIdentifier: teamID)
  }
}
