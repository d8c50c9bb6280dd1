internal import PushGateway
internal import PushTransport
internal import PushWire
internal import Testing

/// Verification of provider tokens by the service (HTTP2ProviderAPI, section 5).
struct ProviderTokenJudgementTests {
  private static let epoch = ServiceDriver.epoch
  private let key: ProviderKey
  private let other: ProviderKey

  init() throws {
    key = try ProviderKey.make(keyIdentifier: "KEY0000001", teamIdentifier: "TEAM000001")
    other = try ProviderKey.make(keyIdentifier: "KEY0000002", teamIdentifier: "TEAM000001")
  }

  private func serviceKey(_ key: ProviderKey, topics: Set<String>? = nil) -> ServiceKey {
    ServiceKey(keyIdentifier: key.keyIdentifier, teamIdentifier: key.teamIdentifier, key: key.publicKey, topics: topics)
  }

  private func driver(_ rules: FaultRules = FaultRules(), keys: [ServiceKey]? = nil) throws -> ServiceDriver {
    try ServiceDriver(ServiceDriver.service(rules, keys: keys ?? [serviceKey(key)]), client: ServiceClient())
  }

  private func bearer(_ key: ProviderKey, at offset: Int64 = 0) throws -> [(String, String)] {
    [("authorization", "bearer " + (try key.token(issuedAt: Self.epoch + offset)))]
  }

  @Test("a valid token allows every topic and push type of the team")
  func good() throws {
    let driver = try driver()
    let token = try bearer(key)
    #expect(driver.answer(driver.send(token)) == "200")
    #expect(
      driver.answer(
        driver.send(token + [("apns-topic", "com.example.other.location-query"), ("apns-push-type", "location")]))
        == "200")
    #expect(driver.reason(driver.send(token + [("apns-topic", "")])) == "MissingTopic")
    #expect(driver.reason(driver.send(token + [("apns-push-type", "mdm")])) == "TopicDisallowed")
    #expect(driver.reason(driver.send()) == "MissingProviderToken")
    #expect(
      driver.answer(driver.send([("authorization", token[0].1.replacing("bearer", with: "Bearer"))])) == "200",
      "the scheme is not case-sensitive")
    driver.connection.ended()
    #expect(driver.service.truth()["com.example.other"]?.accepted == 1)
  }

  @Test("a token must be signed by a known key, with that key's and team's identifiers")
  func signatures() throws {
    let stranger = try ProviderKey.make(keyIdentifier: "KEY0000001", teamIdentifier: "TEAM000001")
    let renamed = try ProviderKey.make(keyIdentifier: "KEY0000009", teamIdentifier: "TEAM000001")
    let driver = try driver()
    let good = try key.token(issuedAt: Self.epoch)
    let parts = good.split(separator: ".").map(String.init)
    let claims = String(
      decoding: Base64URL.encode(Array(#"{"iss":"TEAM000002","iat":1800000000}"#.utf8)), as: UTF8.self)
    var bad = [
      try stranger.token(issuedAt: Self.epoch), try renamed.token(issuedAt: Self.epoch), "x", "a.b.c",
      parts[0] + "." + parts[1],
      parts[0] + "." + claims + "." + parts[2], good + "A", String(repeating: "a", count: 5000),
    ]
    // The same with one bit of the signature changed.
    let signature = Base64URL.decode(Array(parts[2].utf8)) ?? []
    bad.append(
      parts[0] + "." + parts[1] + "."
        + String(decoding: Base64URL.encode([signature[0] ^ 1] + signature.dropFirst()), as: UTF8.self))
    for token in bad {
      #expect(driver.reason(driver.send([("authorization", "bearer " + token)])) == "InvalidProviderToken", "\(token)")
      #expect(driver.reason(driver.send([("authorization", "basic " + good)])) == "InvalidProviderToken")
    }
    #expect(driver.answer(driver.send(try bearer(key))) == "200", "invalid tokens do not bind the connection")
  }

  @Test("a token lives for an hour from its iat, which may not be in the future")
  func times() throws {
    for (offset, reason) in [
      (0, nil), (-3599, nil), (-3602, "ExpiredProviderToken"), (30, "InvalidProviderToken"),
      (4000, "InvalidProviderToken"),
    ]
      as [(Int64, String?)]
    {
      let driver = try driver()
      let stream = driver.send(try bearer(key, at: offset))
      #expect(driver.reason(stream) == reason, "\(offset)")
      #expect((reason != nil || driver.answer(stream) == "200"), "\(offset)")
    }
    let driver = try driver()
    let token = try bearer(key)
    #expect(driver.answer(driver.send(token)) == "200")
    driver.pass(.seconds(3598))
    #expect(driver.answer(driver.send(token)) == "200")
    driver.pass(.seconds(3))
    #expect(driver.reason(driver.send(token)) == "ExpiredProviderToken", "the connection's current token too")
    #expect(driver.answer(driver.send(try bearer(key, at: 3600))) == "200", "the next token replaces it")
  }

  @Test("a wrong clock shifts the check of times, and the date field shows it")
  func clockOffset() throws {
    var rules = FaultRules()
    rules.service.clockOffset = .zero - .seconds(7200)
    let behind = try driver(rules)
    #expect(behind.reason(behind.send(try bearer(key))) == "InvalidProviderToken")
    #expect(behind.answer(behind.send(try bearer(key, at: -7200))) == "200")
    rules.service.clockOffset = .seconds(7200)
    let ahead = try driver(rules)
    #expect(ahead.reason(ahead.send(try bearer(key))) == "ExpiredProviderToken")
  }

  @Test("a connection may change its token every twenty minutes; the old one stays valid meanwhile")
  func updates() throws {
    let driver = try driver()
    let (first, second, third) = (try bearer(key), try bearer(key, at: 1), try bearer(key, at: 1201))
    #expect(driver.answer(driver.send(first)) == "200")
    driver.pass(.seconds(60))
    for _ in 0..<3 { #expect(driver.reason(driver.send(second)) == "TooManyProviderTokenUpdates") }
    #expect(driver.answer(driver.send(first)) == "200")
    driver.pass(.seconds(1141))
    #expect(driver.answer(driver.send(third)) == "200")
    #expect(
      driver.reason(driver.send(first)) == "TooManyProviderTokenUpdates", "going back to the old one is a change too")
    // Another connection has its own interval.
    let another = try ServiceDriver((driver.service, driver.memory), client: ServiceClient(), now: driver.now)
    #expect(another.answer(another.send(second)) == "200")
  }

  @Test("the first token binds a connection to its team, and a topic-specific key binds it to the key")
  func binding() throws {
    let foreign = try ProviderKey.make(keyIdentifier: "KEY0000003", teamIdentifier: "TEAM000002")
    let keys = [serviceKey(key), serviceKey(other), serviceKey(foreign)]
    let team = try driver(keys: keys)
    #expect(team.answer(team.send(try bearer(key))) == "200")
    #expect(team.reason(team.send(try bearer(foreign))) == "InvalidProviderToken")
    #expect(team.reason(team.send(try bearer(other))) == "TooManyProviderTokenUpdates")
    team.pass(.seconds(1200))
    #expect(team.answer(team.send(try bearer(other))) == "200", "the keys of a team can replace each other")

    let topical = try driver(keys: [serviceKey(key, topics: [ServiceDriver.topic]), serviceKey(other)])
    let token = try bearer(key)
    #expect(topical.answer(topical.send(token)) == "200")
    #expect(
      topical.answer(topical.send(token + [("apns-topic", ServiceDriver.topic + ".voip"), ("apns-push-type", "voip")]))
        == "200")
    #expect(topical.reason(topical.send(token + [("apns-topic", "com.example.other")])) == "TopicDisallowed")
    topical.pass(.seconds(1200))
    #expect(topical.reason(topical.send(try bearer(other))) == "UnrelatedKeyIdInToken")
  }

  @Test("a token can be made to expire early, on every connection at once")
  func expireAfter() throws {
    var rules = FaultRules()
    rules.service.expireTokenAfter = .seconds(30)
    let driver = try driver(rules)
    let token = try bearer(key)
    #expect(driver.answer(driver.send(token)) == "200")
    driver.pass(.seconds(30))
    #expect(driver.reason(driver.send(token)) == "ExpiredProviderToken")
    let another = try ServiceDriver((driver.service, driver.memory), client: ServiceClient(), now: driver.now)
    #expect(another.reason(another.send(token)) == "ExpiredProviderToken")
    #expect(another.answer(another.send(try bearer(key, at: 20))) == "200")
    #expect(
      driver.answer(driver.send(try bearer(key, at: 21))) == "200",
      "the first token has expired, so a change is not too early")
  }

  @Test("with a certificate and a token, the token counts")
  func both() throws {
    let client = ServiceClient(topics: [ServiceDriver.topic], userIdentifier: ServiceDriver.topic)
    let driver = try ServiceDriver(ServiceDriver.service(keys: [serviceKey(key)]), client: client)
    let token = try bearer(key)
    #expect(driver.answer(driver.send(token + [("apns-topic", "com.example.other")])) == "200")
    #expect(driver.reason(driver.send([("apns-topic", "com.example.other")])) == "TopicDisallowed")
    #expect(driver.reason(driver.send(token + [("apns-topic", "")])) == "MissingTopic")
  }
}
