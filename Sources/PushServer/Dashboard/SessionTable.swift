internal import PushTransport
internal import PushWire

/// Who is logged in to the dashboard. Time is a parameter.
///
/// A browser has a random value in a cookie; here is its digest. A session ends with the process.
struct SessionTable: Sendable {
  struct Session: Hashable, Sendable {
    let keyID: String
    /// Every form of the session must send it.
    let formToken: String
    let expiresAt: Instant
  }

  private var sessions: [[UInt8]: Session] = [:]

  static let lifetime = Duration.seconds(12 * 3600)
  /// More than people who look at one service. The key with the most sessions makes room.
  static let limit = 1_000
  /// More than browsers that share a key. The one that ends first makes room.
  static let keyLimit = 20

  init() {}

  var count: Int { sessions.count }

  /// - Parameter cookie: what the browser is given.
  mutating func begin(_ cookie: String, keyID: String, formToken: String, now: Instant) {
    sessions = sessions.filter { $0.value.expiresAt > now }
    let counts = sessions.values.reduce(into: [:]) { $0[$1.keyID, default: 0] += 1 }
    if counts[keyID, default: 0] >= Self.keyLimit {
      endFirst(of: keyID)
    } else if sessions.count >= Self.limit, let fullest = counts.max(by: { $0.value < $1.value }) {
      endFirst(of: fullest.key)
    }
    sessions[Self.digest(cookie)] = Session(keyID: keyID, formToken: formToken, expiresAt: now + Self.lifetime)
  }

  private mutating func endFirst(of keyID: String) {
    let own = sessions.filter { $0.value.keyID == keyID }
    if let first = own.min(by: { $0.value.expiresAt < $1.value.expiresAt }) { sessions[first.key] = nil }
  }

  func session(_ cookie: String, now: Instant) -> Session? {
    guard let session = sessions[Self.digest(cookie)], session.expiresAt > now else { return nil }
    return session
  }

  mutating func end(_ cookie: String) { sessions[Self.digest(cookie)] = nil }

  private static func digest(_ cookie: String) -> [UInt8] { Digest.sha256(Array(cookie.utf8)) }

  /// 256 random bits in hexadecimal digits.
  static func secret() -> String {
    var generator = SystemRandomNumberGenerator()
    return Digest.hexadecimal((0..<32).map { _ in UInt8.random(in: 0 ... .max, using: &generator) })
  }
}

extension String {
  /// Takes as long whichever bytes differ.
  func isSameSecret(as other: String) -> Bool {
    let (own, others) = (Array(utf8), Array(other.utf8))
    guard own.count == others.count else { return false }
    return zip(own, others).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
  }
}
