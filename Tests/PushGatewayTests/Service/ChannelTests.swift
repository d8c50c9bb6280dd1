internal import PushGateway
internal import PushTransport
internal import PushWire
internal import Testing

/// Broadcast channels (HTTP2ProviderAPI, section 6).
struct ChannelTests {
  private static let path = "/1/apps/\(ServiceDriver.topic)/channels"
  private static let all = "/1/apps/\(ServiceDriver.topic)/all-channels"
  private static let broadcast = "/4/broadcasts/apps/\(ServiceDriver.topic)"
  private static let stored = Array(#"{"message-storage-policy":1,"push-type":"LiveActivity"}"#.utf8)
  private static let notStored = Array(#"{"push-type":"LiveActivity","message-storage-policy":0}"#.utf8)

  private let made = ServiceDriver.service()

  private func manager() throws -> ServiceDriver { try ServiceDriver(made, for: .channels) }

  /// The identifiers that the service lists.
  private func list(_ driver: ServiceDriver) -> [String] {
    let text = driver.answer(driver.send(path: Self.all, [(":method", "GET")], body: [])) ?? ""
    guard text.hasPrefix(#"{"channels":["#) else { return [] }
    return text.dropFirst(13).dropLast(2).split(separator: ",").map { $0.filter { $0 != "\"" } }
  }

  @Test("channels are created, listed, read and deleted")
  func life() throws {
    let driver = try manager()
    #expect(list(driver).isEmpty)
    for body in [Self.stored, Self.notStored, Self.stored] { driver.send(path: Self.path, body: body) }
    let channels = list(driver)
    #expect(channels.count == 3)
    #expect(Set(channels).count == 3)
    var policies: [String] = []
    for channel in channels {
      let read = driver.send(path: Self.path, [(":method", "GET"), ("apns-channel-id", channel)], body: [])
      policies.append(driver.answer(read) ?? "")
    }
    #expect(policies.sorted() == [0, 1, 1].map { #"{"message-storage-policy":\#($0),"push-type":"LiveActivity"}"# })
    let gone = try #require(channels.first)
    let delete = [(":method", "DELETE"), ("apns-channel-id", gone)]
    #expect(driver.answer(driver.send(path: Self.path, delete, body: [])) == "no body", "204")
    #expect(driver.reason(driver.send(path: Self.path, delete, body: [])) == "ChannelNotRegistered")
    #expect(
      driver.reason(driver.send(path: Self.path, [(":method", "GET"), ("apns-channel-id", gone)], body: []))
        == "ChannelNotRegistered")
    #expect(list(driver) == Array(channels.dropFirst()))
  }

  @Test("an invalid channel request gets the reason")
  func mistakes() throws {
    let driver = try manager()
    func reason(_ path: String, _ fields: [(String, String)] = [], _ body: String = "") -> String? {
      driver.reason(driver.send(path: path, fields, body: Array(body.utf8)))
    }
    let get = (":method", "GET")
    #expect(reason("/1/apps/\(ServiceDriver.topic)/x", [get]) == "BadPath")
    #expect(reason("/3/device/00") == "BadPath")
    #expect(reason("/1/apps//channels") == "BadPath")
    #expect(reason(Self.path, [(":method", "PUT")]) == "MethodNotAllowed")
    #expect(reason(Self.all, [(":method", "DELETE")]) == "MethodNotAllowed")
    #expect(reason(Self.path + "?limit=1", [get]) == "BadRequestParams")
    #expect(reason(Self.path) == "PayloadEmpty")
    #expect(reason(Self.path, [], "[") == "BadRequestPayload")
    #expect(reason(Self.path, [], "[]") == "BadRequestPayload")
    #expect(reason(Self.path, [], #"{"message-storage-policy":1}"#) == "MissingPushType")
    #expect(reason(Self.path, [], #"{"message-storage-policy":1,"push-type":"Alert"}"#) == "InvalidPushType")
    #expect(reason(Self.path, [], #"{"message-storage-policy":2,"push-type":"LiveActivity"}"#) == "BadRequestPayload")
    #expect(reason(Self.path, [], #"{"push-type":"LiveActivity"}"#) == "BadRequestPayload")
    #expect(reason(Self.path, [get]) == "MissingChannelId")
    #expect(reason(Self.path, [get, ("apns-channel-id", "no!")]) == "BadChannelId")
    #expect(reason(Self.path, [get, ("apns-channel-id", "AAAA")]) == "ChannelNotRegistered")
    #expect(reason(Self.path, [get, ("apns-request-id", "x")]) == "BadMessageId")
    #expect(reason("/1/apps/com.example.other/channels", [get, ("apns-channel-id", "AAAA")]) == "TopicMismatch")
    let anonymous = try ServiceDriver(made, client: ServiceClient(), for: .channels)
    #expect(anonymous.reason(anonymous.send(path: Self.all, [get], body: [])) == "MissingProviderToken")
    anonymous.connection.ended()
    driver.connection.ended()
    #expect(driver.service.truth()["com.example.other"]?.refused == [ServiceRefusal(.topicMismatch): 1])
  }

  @Test("an app has at most ten thousand channels")
  func limit() throws {
    let driver = try manager()
    for _ in 0..<10_000 { driver.send(path: Self.path, body: Self.stored) }
    #expect(driver.reason(driver.send(path: Self.path, body: Self.stored)) == "CannotCreateChannelConfig")
  }

  @Test("a broadcast goes to a channel of the app, by its rules")
  func broadcasts() throws {
    let manager = try manager()
    manager.send(path: Self.path, body: Self.notStored)
    let fleeting = try #require(list(manager).first)
    manager.send(path: Self.path, body: Self.stored)
    let kept = try #require(list(manager).first { $0 != fleeting })
    let driver = try ServiceDriver(made)
    func outcome(
      _ changes: [(String, String)] = [], channel: String = kept, body: [UInt8] = ServiceDriver.payload
    ) -> String? {
      let base = [
        ("apns-topic", ""), ("apns-channel-id", channel), ("apns-push-type", "liveactivity"), ("apns-expiration", "0"),
      ]
      let stream = driver.send(
        path: Self.broadcast, base.filter { entry in !changes.contains { $0.0 == entry.0 } } + changes, body: body)
      return driver.reason(stream) ?? driver.answer(stream)
    }
    #expect(outcome() == "200")
    #expect(outcome(channel: fleeting) == "200")
    #expect(outcome([("apns-expiration", "1900000000")]) == "200")
    #expect(outcome([("apns-expiration", "1900000000")], channel: fleeting) == "BadExpirationDate")
    #expect(outcome([("apns-expiration", "")]) == "BadExpirationDate")
    #expect(outcome([("apns-priority", "2")]) == "BadPriority")
    #expect(outcome([("apns-push-type", "alert")]) == "InvalidPushType")
    #expect(outcome([("apns-push-type", "")]) == "MissingPushType")
    #expect(outcome(channel: "") == "MissingChannelId")
    #expect(outcome(channel: "=") == "BadChannelId")
    #expect(outcome(channel: "AAAA") == "ChannelNotRegistered")
    #expect(outcome([("apns-id", "x")]) == "BadMessageId")
    #expect(outcome([(":method", "GET")]) == "MethodNotAllowed")
    #expect(outcome(body: []) == "PayloadEmpty")
    #expect(outcome(body: Array(#"{"a":""#.utf8) + [UInt8](repeating: 0x20, count: 5112) + Array(#""}"#.utf8)) == "200")
    #expect(
      outcome(body: Array(#"{"a":""#.utf8) + [UInt8](repeating: 0x20, count: 5113) + Array(#""}"#.utf8))
        == "PayloadTooLarge")
    #expect(driver.reason(driver.send(path: "/4/broadcasts/apps/com.example.other")) == "TopicMismatch")
    #expect(driver.memory.requests.first?.channel == kept)
    #expect(driver.memory.requests.first?.token == nil)
    let truth = driver.ended()
    #expect((truth.broadcasts, truth.accepted) == (4, 0))
  }

  @Test("an app without the feature gets FeatureNotEnabled")
  func featureNotEnabled() throws {
    var rules = FaultRules()
    rules.common.http2.allowsBroadcast = false
    let made = ServiceDriver.service(rules)
    let (manager, sender) = (try ServiceDriver(made, for: .channels), try ServiceDriver(made))
    #expect(manager.reason(manager.send(path: Self.path, body: Self.stored)) == "FeatureNotEnabled")
    #expect(sender.reason(sender.send(path: Self.broadcast)) == "FeatureNotEnabled")
  }
}
