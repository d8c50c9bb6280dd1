internal import Hummingbird
internal import PushService
internal import PushStore
internal import PushTransport
internal import PushWire

/// Who is logged in to the dashboard, at any of the services that share the store.
///
/// A browser has a random value in a cookie; the store has its digest.
final class DashboardSessions: Sendable {
  struct Session: Hashable, Sendable {
    let keyID: String
    /// Every form of the session must send it. It follows from the cookie, so that no other value
    /// has to be kept.
    let formToken: String
  }

  private let store: any Store
  private let clock: any ServiceClock
  private let known: StoreReading<StoredSession>

  /// In seconds.
  static let lifetime = 12 * 3600
  /// More than people who look at one deployment. The key with the most sessions makes room.
  static let limit = 1_000
  /// More than browsers that share a key. The one that ends first makes room.
  static let keyLimit = 20

  init(store: any Store, clock: any ServiceClock) {
    (self.store, self.clock) = (store, clock)
    known = StoreReading(clock: clock) { () async throws(StoreError) in
      Dictionary(try await store.sessions().map { (Digest.hexadecimal($0.digest), $0) }) { _, last in last }
    }
  }

  /// The session that a request belongs to; nil: none.
  func session(of request: Request) async throws -> Session? {
    guard let cookie = request.cookies[DashboardForm.sessionCookie]?.value,
      let session = try await known.find(Digest.hexadecimal(Self.digest(cookie)))?.value, session.expiresAt > clock.now
    else { return nil }
    return Session(
      keyID: session.keyID, formToken: Digest.hexadecimal(Digest.sha256(Array("form \(cookie)".utf8))))
  }

  /// Also nil if nobody can know at present.
  func keyID(of request: Request) async -> String? { (try? await session(of: request))?.keyID }

  /// - Returns: what the browser is given.
  func begin(keyID: String) async throws -> String {
    let cookie = Self.secret()
    let now = clock.now
    let session = StoredSession(
      digest: Self.digest(cookie), keyID: keyID,
      expiresAt: now.after(seconds: Int64(Self.lifetime)))
    let ended = Self.ended(by: keyID, among: try await store.sessions(), now: now)
    try await store.begin(session, ending: ended.map(\.digest))
    known.changed()
    return cookie
  }

  func end(_ cookie: String) async throws {
    try await store.endSession(Self.digest(cookie))
    known.changed()
  }

  /// Those that are over, or make room for a new one.
  static func ended(by keyID: String, among sessions: [StoredSession], now: StoreInstant) -> [StoredSession] {
    let current = sessions.filter { $0.expiresAt > now }
    let byKey = Dictionary(grouping: current, by: \.keyID)
    var ended = sessions.filter { $0.expiresAt <= now }
    let crowded =
      if byKey[keyID, default: []].count >= keyLimit { byKey[keyID] } else {
        current.count >= limit ? byKey.values.max { $0.count < $1.count } : nil
      }
    if let first = crowded?.min(by: { $0.expiresAt < $1.expiresAt }) { ended.append(first) }
    return ended
  }

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
