extension ProviderReason {
  /// What a person can do when the service refuses an app's credential or topic for this reason, as
  /// a clause; nil: it refuses something else.
  package var credentialAdvice: String? {
    switch self {
    case .badCertificate: "request a new certificate for its topic"
    case .badCertificateEnvironment: "correct its environment or its certificate"
    case .badEnvironmentKey, .badEnvironmentKeyIdentifier: "correct its environment or its key"
    case .featureNotEnabled: "switch the feature on in the developer account"
    case .forbidden: "check its credential, topic and environment"
    case .invalidProviderToken: "check its key, key ID and team ID, and this machine's clock"
    case .missingProviderToken: "give it a key, or a certificate for its topic"
    case .topicDisallowed, .topicMismatch: "correct its topic, or use a credential for it"
    default: nil
    }
  }
}

extension Rejection {
  /// The refusal of an app as a whole, with what a person can do about it.
  package var ofApp: String {
    var reason = ProviderReason.forbidden
    if case .provider(let refusal) = self { reason = refusal.reason ?? reason }
    return "the gateway refuses this app: \(self); \(reason.credentialAdvice ?? "check its credential")"
  }
}
