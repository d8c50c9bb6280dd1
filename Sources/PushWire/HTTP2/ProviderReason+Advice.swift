extension ProviderReason {
  /// What a person can do when the service refuses an app's credential or topic for this reason, as
  /// a clause; nil: it refuses something else.
  package var credentialAdvice: String? {
    switch self {
    case .badCertificate: "request a new certificate for its topic"
    case .badCertificateEnvironment: "correct its environment or its certificate"
    case .badEnvironmentKey, .badEnvironmentKeyIdentifier: "correct its environment or its key"
    case .featureNotEnabled: "switch the feature on in the developer account"
    case .forbidden: usualAdvice
    case .invalidProviderToken: "check its key, key ID and team ID, and this machine's clock"
    case .missingProviderToken: "give it a key, or a certificate for its topic"
    case .topicDisallowed, .topicMismatch: "correct its topic, or use a credential for it"
    default: nil
    }
  }
}

/// For an unknown reason, or one that names nothing of the app's.
private let usualAdvice = "check its credential, topic and environment"

extension Rejection {
  /// Says that the gateway refuses an app as a whole, and what a person can do about it.
  package var sentenceForApp: String {
    var advice = usualAdvice
    if case .provider(let refusal) = self { advice = refusal.reason?.credentialAdvice ?? advice }
    return "the gateway refuses this app: \(self); \(advice)"
  }
}
