package import PushTransport
internal import PushWire
internal import Synchronization

/// A token signing key that the service knows.
package struct ServiceKey: Sendable {
  /// `kid` in tokens.
  package var keyIdentifier: String
  /// `iss` in tokens.
  package var teamIdentifier: String
  package var key: ProviderPublicKey
  /// The apps of a topic-specific key; nil: a team's key, for every topic.
  package var topics: Set<String>?

  package init(keyIdentifier: String, teamIdentifier: String, key: ProviderPublicKey, topics: Set<String>? = nil) {
    (self.keyIdentifier, self.teamIdentifier, self.key, self.topics) = (keyIdentifier, teamIdentifier, key, topics)
  }
}

/// Verifies provider tokens (HTTP2ProviderAPI, section 5), each one once for all connections.
final class ServiceKeys: Sendable {
  /// A token with a valid signature. It may be expired.
  final class Token: Sendable {
    let key: ServiceKey
    let issuedAt: Int64
    let firstSeen: Instant

    init(key: ServiceKey, issuedAt: Int64, firstSeen: Instant) {
      (self.key, self.issuedAt, self.firstSeen) = (key, issuedAt, firstSeen)
    }
  }

  private let keys: [ServiceKey]
  private let isStrict: Bool
  /// Valid tokens by their text. A sender uses one token per key and hour.
  private let known = Mutex<[[UInt8]: Token]>([:])
  private static let knownLimit = 4096

  init(_ keys: [ServiceKey], isStrict: Bool) { (self.keys, self.isStrict) = (keys, isStrict) }

  /// The token in the value of `authorization`; nil: none of the keys has signed it.
  func token(_ authorization: UnsafeRawBufferPointer, now: Instant) -> Token? {
    guard authorization.count <= ProviderTokenText.byteCountLimit, unsafe Self.isBearer(authorization) else {
      return nil
    }
    let text = unsafe Array(authorization.dropFirst(7))
    if let token = known.withLock({ $0[text] }) { return token }
    guard let token = verify(text, now: now) else { return nil }
    return known.withLock { known in
      if let other = known[text] { return other }
      if known.count >= Self.knownLimit { known.removeAll() }
      known[text] = token
      return token
    }
  }

  private func verify(_ text: [UInt8], now: Instant) -> Token? {
    let parsed: ProviderTokenText
    do throws(ProviderTokenError) { parsed = try ProviderTokenText(parsing: text) } catch { return nil }
    guard !isStrict || !parsed.hasFractionalTime,
      let key = keys.first(where: {
        $0.keyIdentifier == parsed.keyIdentifier && $0.teamIdentifier == parsed.teamIdentifier
      }), key.key.verifies(parsed.signature, over: parsed.signingInput, acceptsDER: !isStrict)
    else { return nil }
    return Token(key: key, issuedAt: parsed.issuedAt, firstSeen: now)
  }

  private static func isBearer(_ value: UnsafeRawBufferPointer) -> Bool {
    guard value.count > 7 else { return false }
    // The scheme's name is compared without regard to case (RFC 9110, 11.1).
    let scheme: StaticString = "bearer "
    for index in 0..<7 where unsafe (index < 6 ? value[index] | 0x20 : value[index]) != scheme.utf8Start[index] {
      return false
    }
    return true
  }
}

/// The tokens that one connection has used.
struct ProviderTokenJudge {
  /// The maximum age of a token, in seconds.
  static let lifetime: Int64 = 3600
  /// How far `iat` may lie in the future, in seconds: clocks that agree may round differently.
  static let clockTolerance: Int64 = 1
  /// The minimum time between two tokens on a connection.
  static let updateInterval = Duration.seconds(20 * 60)

  private let keys: ServiceKeys
  /// A token that the service has known for longer counts as expired; nil: only ``lifetime``
  /// counts.
  private let expireAfter: Duration?
  private(set) var current: ServiceKeys.Token?
  private var currentText: [UInt8] = []
  private var currentSince = Instant.start
  /// The last text that was refused. A client that repeats it costs no signature check.
  private var refusedText: [UInt8] = []
  private var lastRefusal: ServiceRefusal?

  init(_ keys: ServiceKeys, expireAfter: Duration?) { (self.keys, self.expireAfter) = (keys, expireAfter) }

  /// Nil: the token is valid.
  mutating func check(_ authorization: UnsafeRawBufferPointer, now: Instant, unixSeconds: Int64) -> ServiceRefusal? {
    if let current, unsafe currentText.holdsSameBytes(as: authorization) {
      return timeRefusal(current, now: now, unixSeconds: unixSeconds)
    }
    if let lastRefusal, unsafe refusedText.holdsSameBytes(as: authorization) { return lastRefusal }
    guard let token = unsafe keys.token(authorization, now: now) else {
      return unsafe refuse(authorization, ServiceRefusal(.invalidProviderToken))
    }
    if let refusal = timeRefusal(token, now: now, unixSeconds: unixSeconds) { return refusal }
    // The same token with another scheme text, such as "Bearer".
    if token === current { return nil }
    if let current {
      // The first token binds the connection to its team. A topic-specific key binds it to the key.
      guard token.key.teamIdentifier == current.key.teamIdentifier else {
        return unsafe refuse(authorization, ServiceRefusal(.invalidProviderToken))
      }
      if token.key.keyIdentifier != current.key.keyIdentifier, token.key.topics != nil || current.key.topics != nil {
        return unsafe refuse(authorization, ServiceRefusal(.unrelatedKeyIdentifier))
      }
      if now.since(currentSince) < Self.updateInterval, timeRefusal(current, now: now, unixSeconds: unixSeconds) == nil
      {
        return ServiceRefusal(.tooManyProviderTokenUpdates)
      }
    }
    current = token
    currentText = unsafe Array(authorization)
    currentSince = now
    return nil
  }

  private mutating func refuse(_ authorization: UnsafeRawBufferPointer, _ refusal: ServiceRefusal) -> ServiceRefusal {
    refusedText = unsafe Array(authorization)
    lastRefusal = refusal
    return refusal
  }

  private func timeRefusal(_ token: ServiceKeys.Token, now: Instant, unixSeconds: Int64) -> ServiceRefusal? {
    if unixSeconds - token.issuedAt > Self.lifetime { return ServiceRefusal(.expiredProviderToken) }
    if token.issuedAt > unixSeconds + Self.clockTolerance { return ServiceRefusal(.invalidProviderToken) }
    if let expireAfter, now.since(token.firstSeen) >= expireAfter { return ServiceRefusal(.expiredProviderToken) }
    return nil
  }
}
