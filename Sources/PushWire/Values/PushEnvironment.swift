/// Which of Apple's environments: an app from the store talks to production, one from Xcode to the
/// sandbox. Tokens of one are unknown in the other.
package enum PushEnvironment: String, Hashable, Sendable, CaseIterable, Codable {
  case production, sandbox
}
