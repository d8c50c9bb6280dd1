package import PushTransport
internal import PushWire
internal import Synchronization

/// A token signing key as the service knows it.
package struct ServiceKey: Sendable {
  /// `kid` in tokens.
  package var keyIdentifier: String
  /// `iss` in tokens.
  package var teamIdentifier: String
  package var key: ProviderPublicKey
  /// The apps of a topic-specific key; nil: a team's key, for whatever topic.
  package var topics: Set<String>?

  package init(keyIdentifier: String, teamIdentifier: String, key: ProviderPublicKey, topics: Set<String>? = nil) {
    self.keyIdentifier = keyIdentifier
    self.teamIdentifier = teamIdentifier
    self.key = key
    self.topics = topics
  }
}

/// Verifies provider tokens (HTTP2ProviderAPI.md, section 5), each once for all connections.
final class ServiceKeys: Sendable {
  /// A token whose signature holds. Whether its time has passed is another question.
  final class Token: Sendable {
    let key: ServiceKey
    let issuedAt: Int64
    let firstSeen: Instant

    init(key: ServiceKey, issuedAt: Int64, firstSeen: Instant) {
      self.key = key
      self.issuedAt = issuedAt
      self.firstSeen = firstSeen
    }
  }

  private let keys: [ServiceKey]
  private let isStrict: Bool
  /// Tokens that have proved good, by their text. A sender has one per key and hour.
  private let known = Mutex<[[UInt8]: Token]>([:])
  private static let knownLimit = 4096

  init(_ keys: [ServiceKey], isStrict: Bool) {
    self.keys = keys
    self.isStrict = isStrict
  }

  /// The token in the value of `authorization`; nil: it is not one that any of the keys has signed.
  func token(_ authorization: UnsafeRawBufferPointer, now: Instant) -> Token? {
    guard authorization.count <= ProviderTokenText.byteCountLimit, unsafe Self.isBearer(authorization) else { return nil }
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
      let key = keys.first(where: { $0.keyIdentifier == parsed.keyIdentifier && $0.teamIdentifier == parsed.teamIdentifier }),
      key.key.verifies(parsed.signature, over: parsed.signingInput, acceptsDER: !isStrict)
    else { return nil }
    return Token(key: key, issuedAt: parsed.issuedAt, firstSeen: now)
  }

  private static func isBearer(_ value: UnsafeRawBufferPointer) -> Bool {
    guard value.count > 7 else { return false }
    // The scheme's name is compared without regard to case (RFC 9110, 11.1).
    let scheme: StaticString = "bearer "
    for index in 0..<7 where unsafe (index < 6 ? value[index] | 0x20 : value[index]) != scheme.utf8Start[index] { return false }
    return true
  }
}

/// The tokens that one connection has shown.
struct ConnectionTokens {
  /// A token may be this old.
  static let lifetime: Int64 = 3600
  /// Clocks that agree may still round differently.
  static let clockTolerance: Int64 = 1
  /// A connection may change its token this often.
  static let updateInterval = Duration.seconds(20 * 60)

  private let keys: ServiceKeys
  /// A token that the service has known for longer counts as expired; nil: the rule of an hour alone holds.
  private let expireAfter: Duration?
  private(set) var current: ServiceKeys.Token?
  private var currentText: [UInt8] = []
  private var currentSince = Instant.start
  /// The last text that was refused, so that a client that goes on with it costs no signature.
  private var refusedText: [UInt8] = []
  private var lastRefusal: ServiceRefusal?

  init(_ keys: ServiceKeys, expireAfter: Duration?) {
    self.keys = keys
    self.expireAfter = expireAfter
  }

  /// Nil: the token is good.
  mutating func judge(_ authorization: UnsafeRawBufferPointer, now: Instant, unixSeconds: Int64) -> ServiceRefusal? {
    if let current, unsafe currentText.holdsSameBytes(as: authorization) { return timeRefusal(current, now: now, unixSeconds: unixSeconds) }
    if let lastRefusal, unsafe refusedText.holdsSameBytes(as: authorization) { return lastRefusal }
    guard let token = unsafe keys.token(authorization, now: now) else {
      return unsafe refuse(authorization, ServiceRefusal(.invalidProviderToken))
    }
    if let refusal = timeRefusal(token, now: now, unixSeconds: unixSeconds) { return refusal }
    // The same token in other words, such as "Bearer".
    if token === current { return nil }
    if let current {
      // The first token binds the connection to its team; a topic's key also to itself.
      guard token.key.teamIdentifier == current.key.teamIdentifier else { return unsafe refuse(authorization, ServiceRefusal(.invalidProviderToken)) }
      if token.key.keyIdentifier != current.key.keyIdentifier, token.key.topics != nil || current.key.topics != nil {
        return unsafe refuse(authorization, ServiceRefusal(.unrelatedKeyIdentifier))
      }
      if now.since(currentSince) < Self.updateInterval, timeRefusal(current, now: now, unixSeconds: unixSeconds) == nil {
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
