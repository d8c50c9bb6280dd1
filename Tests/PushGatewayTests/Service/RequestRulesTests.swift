internal import PushGateway
internal import PushTransport
internal import PushWire
internal import Testing

/// The rules for requests, row by row (HTTP2ProviderAPI, sections 2 to 4), from outside: bytes in,
/// bytes out.
struct RequestRulesTests {
  struct Row: Sendable, CustomTestStringConvertible {
    let name: String
    var path: String?
    var fields: [(String, String)] = []
    var body = ServiceDriver.payload
    /// Nil: accepted.
    let reason: String?
    var status: UInt16 = 400

    var testDescription: String { name }
  }

  private static func long(_ count: Int) -> [UInt8] {
    Array(#"{"a":""#.utf8) + [UInt8](repeating: 0x78, count: count - 8) + Array(#""}"#.utf8)
  }
  private static let token = Digest.hexadecimal(ServiceDriver.token)
  private static let topic = ServiceDriver.topic

  static let rows: [Row] = [
    Row(name: "nothing but a topic", reason: nil),
    Row(name: "upper-case digits", path: "/3/device/" + token.uppercased(), reason: nil),
    Row(name: "another path", path: "/3/devices/\(token)", reason: "BadPath", status: 404),
    Row(name: "the root", path: "/", reason: "BadPath", status: 404),
    Row(name: "a channel's management", path: "/1/apps/\(topic)/channels", reason: "BadPath", status: 404),
    Row(name: "another method", fields: [(":method", "GET")], reason: "MethodNotAllowed", status: 405),
    Row(
      name: "another method on another path", path: "/x", fields: [(":method", "PUT")], reason: "BadPath", status: 404),
    Row(name: "no token", path: "/3/device/", reason: "MissingDeviceToken"),
    Row(name: "no slash", path: "/3/device", reason: "MissingDeviceToken"),
    Row(name: "no digits", path: "/3/device/" + String(repeating: "zz", count: 32), reason: "BadDeviceToken"),
    Row(name: "an odd number of digits", path: "/3/device/" + token.dropLast(), reason: "BadDeviceToken"),
    Row(name: "a short token", path: "/3/device/" + token.dropLast(2), reason: "BadDeviceToken"),
    Row(name: "a long token", path: "/3/device/" + token + "00", reason: "BadDeviceToken"),
    Row(name: "a very long token", path: "/3/device/" + String(repeating: "00", count: 300), reason: "BadDeviceToken"),
    Row(name: "brackets", path: "/3/device/<\(token)>", reason: "BadDeviceToken"),
    Row(name: "a query", path: "/3/device/\(token)?x=1", reason: "BadDeviceToken"),
    Row(name: "an apns-id", fields: [("apns-id", "9f3b2c4d-0000-4000-8000-00000000000a")], reason: nil),
    Row(name: "an apns-id in upper case", fields: [("apns-id", "9F3B2C4D-0000-4000-8000-00000000000A")], reason: nil),
    Row(
      name: "an apns-id without hyphens", fields: [("apns-id", "9f3b2c4d00004000800000000000000a")],
      reason: "BadMessageId"),
    Row(
      name: "an apns-id of other letters", fields: [("apns-id", "9f3b2c4d-0000-4000-8000-00000000000g")],
      reason: "BadMessageId"),
    Row(
      name: "an apns-id twice", fields: [("apns-id", "9f3b2c4d-0000-4000-8000-00000000000a"), ("apns-id", "x")],
      reason: "DuplicateHeaders"),
    Row(name: "a topic twice", fields: [("apns-topic", topic), ("apns-topic", topic)], reason: "DuplicateHeaders"),
    Row(
      name: "a priority twice", fields: [("apns-priority", "5"), ("apns-priority", "5")], reason: "DuplicateHeaders"),
    Row(
      name: "unknown headers twice", fields: [("x-a", "5"), ("x-a", "5"), ("apns-other", "1"), ("apns-other", "2")],
      reason: nil),
    Row(name: "another topic", fields: [("apns-topic", "com.example.other")], reason: "TopicDisallowed"),
    Row(name: "a topic that begins the same", fields: [("apns-topic", topic + "s")], reason: "TopicDisallowed"),
    Row(name: "an invalid topic", fields: [("apns-topic", "com.example/news")], reason: "BadTopic"),
    Row(name: "each priority: 10", fields: [("apns-priority", "10")], reason: nil),
    Row(name: "each priority: 5", fields: [("apns-priority", "5")], reason: nil),
    Row(name: "each priority: 1", fields: [("apns-priority", "1")], reason: nil),
    Row(name: "priority 7", fields: [("apns-priority", "7")], reason: "BadPriority"),
    Row(name: "priority 05", fields: [("apns-priority", "05")], reason: "BadPriority"),
    Row(name: "background with 5", fields: [("apns-push-type", "background"), ("apns-priority", "5")], reason: nil),
    Row(
      name: "background with 10", fields: [("apns-push-type", "background"), ("apns-priority", "10")],
      reason: "BadPriority"),
    Row(name: "background with the default", fields: [("apns-push-type", "background")], reason: "BadPriority"),
    Row(name: "an unknown type", fields: [("apns-push-type", "Alert")], reason: "InvalidPushType"),
    Row(name: "expiration 0", fields: [("apns-expiration", "0")], reason: nil),
    Row(name: "expiration", fields: [("apns-expiration", "1800000000")], reason: nil),
    Row(name: "a negative expiration", fields: [("apns-expiration", "-1")], reason: "BadExpirationDate"),
    Row(name: "a fractional expiration", fields: [("apns-expiration", "1.5")], reason: "BadExpirationDate"),
    Row(
      name: "64 bytes of collapse-id", fields: [("apns-collapse-id", String(repeating: "x", count: 64))], reason: nil),
    Row(
      name: "65 bytes of collapse-id", fields: [("apns-collapse-id", String(repeating: "x", count: 65))],
      reason: "BadCollapseId"),
    Row(
      name: "64 characters in 65 bytes", fields: [("apns-collapse-id", String(repeating: "x", count: 63) + "é")],
      reason: "BadCollapseId"),
    Row(name: "no payload", body: [], reason: "PayloadEmpty"),
    Row(name: "4096 bytes", body: long(4096), reason: nil),
    Row(name: "4097 bytes", body: long(4097), reason: "PayloadTooLarge", status: 413),
    Row(name: "fifty thousand bytes", body: long(50_000), reason: "PayloadTooLarge", status: 413),
    Row(name: "a payload that is not JSON", body: Array("{\"aps\":".utf8), reason: "BadRequestPayload"),
    Row(name: "a payload that is not an object", body: Array("[]".utf8), reason: "BadRequestPayload"),
    Row(
      name: "voip", fields: [("apns-topic", topic + ".voip"), ("apns-push-type", "voip")], body: long(5120), reason: nil
    ),
    Row(
      name: "voip, 5121 bytes", fields: [("apns-topic", topic + ".voip"), ("apns-push-type", "voip")], body: long(5121),
      reason: "PayloadTooLarge", status: 413),
    Row(name: "voip without its type", fields: [("apns-topic", topic + ".voip")], body: long(5120), reason: nil),
    Row(name: "voip without its suffix", fields: [("apns-push-type", "voip")], reason: "BadTopic"),
    Row(
      name: "complication", fields: [("apns-topic", topic + ".complication"), ("apns-push-type", "complication")],
      reason: nil),
    Row(
      name: "controls", fields: [("apns-topic", topic + ".push-type.controls"), ("apns-push-type", "controls")],
      reason: nil),
    Row(
      name: "fileprovider",
      fields: [("apns-topic", topic + ".pushkit.fileprovider"), ("apns-push-type", "fileprovider")], reason: nil),
    Row(
      name: "liveactivity",
      fields: [("apns-topic", topic + ".push-type.liveactivity"), ("apns-push-type", "liveactivity")], reason: nil),
    Row(
      name: "pushtotalk", fields: [("apns-topic", topic + ".voip-ptt"), ("apns-push-type", "pushtotalk")], reason: nil),
    Row(
      name: "widgets", fields: [("apns-topic", topic + ".push-type.widgets"), ("apns-push-type", "widgets")],
      reason: nil),
    Row(
      name: "location by certificate",
      fields: [("apns-topic", topic + ".location-query"), ("apns-push-type", "location")], reason: "TopicDisallowed"),
    Row(name: "mdm with the certificate's UID", fields: [("apns-push-type", "mdm")], reason: nil),
    Row(
      name: "mdm with another topic", fields: [("apns-push-type", "mdm"), ("apns-topic", "com.apple.mgmt.x")],
      reason: "TopicDisallowed"),
    Row(name: "no topic, by a certificate for one", fields: [("apns-topic", "")], reason: nil),
    Row(
      name: "an invalid token", fields: [("authorization", "bearer x.y.z")], reason: "InvalidProviderToken", status: 403
    ),
  ]

  @Test("each row of the rules", arguments: rows)
  func row(_ row: Row) throws {
    let driver = try ServiceDriver(ServiceDriver.service())
    let stream = driver.send(path: row.path, row.fields, body: row.body)
    if let reason = row.reason {
      #expect(driver.reason(stream) == reason, "\(driver.answer(stream) ?? "no answer")")
      #expect(driver.memory.requests.map(\.refusal) == [ServiceRefusal(status: row.status, reason: reason)])
    } else {
      #expect(driver.answer(stream) == "200")
      #expect(driver.memory.requests.map(\.refusal) == [nil])
      #expect(driver.memory.requests.first?.payload == row.body)
    }
    // In every case the connection stays open, and the next request is judged on its own.
    #expect(driver.answer(driver.send()) == "200")
    _ = driver.ended()
    let total = driver.service.truth().values.reduce(into: ServiceTruth()) { $0.add($1) }
    #expect(total.accepted == (row.reason == nil ? 2 : 1))
    #expect(total.refused == (row.reason.map { [ServiceRefusal(status: row.status, reason: $0): 1] } ?? [:]))
  }

  @Test("every reason has the documented status")
  func statuses() {
    var groups: [UInt16: Set<String>] = [:]
    for reason in ProviderReason.allCases { groups[ServiceRefusal(reason).status, default: []].insert(reason.rawValue) }
    #expect(groups[403]?.count == 10)
    #expect(groups[410] == ["Unregistered", "ExpiredToken"])
    #expect(groups[413] == ["PayloadTooLarge"])
    #expect(groups[404] == ["BadPath"])
    #expect(groups[405] == ["MethodNotAllowed"])
    #expect(groups[429] == ["TooManyRequests", "TooManyProviderTokenUpdates"])
    #expect(groups[500] == ["InternalServerError"])
    #expect(groups[503] == ["ServiceUnavailable", "Shutdown"])
  }

  @Test("a certificate for several topics needs the topic named, and covers its push types")
  func severalTopics() throws {
    let client = ServiceClient(
      topics: ["com.example.a", "com.example.b", "com.example.b.voip"], userIdentifier: "com.example.a")
    let driver = try ServiceDriver(ServiceDriver.service(), client: client)
    #expect(driver.reason(driver.send([("apns-topic", "")])) == "MissingTopic")
    #expect(driver.answer(driver.send([("apns-topic", "com.example.b")])) == "200")
    #expect(driver.answer(driver.send([("apns-topic", "com.example.b.voip"), ("apns-push-type", "voip")])) == "200")
    #expect(driver.answer(driver.send([("apns-topic", "com.example.a.voip"), ("apns-push-type", "voip")])) == "200")
    driver.connection.ended()
    #expect(driver.service.truth()["com.example.b"]?.accepted == 2)
    #expect(driver.service.truth()["com.example.a"]?.accepted == 1)
  }

  @Test("a certificate without topics, and no certificate at all, get the reason")
  func noTopics() throws {
    let strange = try ServiceDriver(ServiceDriver.service(), client: ServiceClient(topics: []))
    #expect(strange.reason(strange.send()) == "BadCertificate")
    let anonymous = try ServiceDriver(ServiceDriver.service(), client: ServiceClient())
    #expect(anonymous.reason(anonymous.send()) == "MissingProviderToken")
    #expect(anonymous.reason(anonymous.send([("authorization", "bearer")])) == "InvalidProviderToken")
  }

  @Test("strict refuses an apns-id in upper case, and a client without ALPN")
  func strict() throws {
    var rules = FaultRules()
    rules.service.isStrict = true
    let driver = try ServiceDriver(ServiceDriver.service(rules))
    #expect(driver.reason(driver.send([("apns-id", "9F3B2C4D-0000-4000-8000-00000000000A")])) == "BadMessageId")
    #expect(driver.answer(driver.send([("apns-id", "9f3b2c4d-0000-4000-8000-00000000000a")])) == "200")
    let (service, memory) = ServiceDriver.service(rules)
    let silent = try ServiceDriver(
      (service, memory), client: ServiceClient(topics: [ServiceDriver.topic], applicationProtocol: nil))
    #expect(silent.connection.end == .close)
    let lenient = try ServiceDriver(
      ServiceDriver.service(), client: ServiceClient(topics: [ServiceDriver.topic], applicationProtocol: nil))
    #expect(lenient.answer(lenient.send()) == "200")
  }

  @Test("a request's fields are recorded, and an apns-id accepted twice is a duplicate")
  func memory() throws {
    let driver = try ServiceDriver(ServiceDriver.service())
    let identifier = "9f3b2c4d-0000-4000-8000-00000000000a"
    let fields = [
      ("apns-id", identifier), ("apns-push-type", "alert"), ("apns-priority", "5"), ("apns-expiration", "7"),
      ("apns-collapse-id", "c"),
    ]
    driver.send(fields)
    driver.send(fields)
    driver.send([("apns-id", "9f3b2c4d-0000-4000-8000-00000000000b")])
    let first = try #require(driver.memory.requests.first)
    #expect(first.app == ServiceDriver.topic)
    #expect(first.topic == ServiceDriver.topic)
    #expect(first.identifier?.description == identifier)
    #expect((first.pushType, first.priority, first.expiration, first.collapseIdentifier) == ("alert", "5", "7", "c"))
    #expect(first.streamID == 1)
    #expect(first.connection == 1)
    #expect(first.isAnswered)
    let token = try #require(TokenBytes(bytes: ServiceDriver.token))
    let delivery = RecordedRequests.Delivery(token: token, identifier: APNSIdentifier(parsing: identifier))
    #expect(driver.memory.accepted(app: ServiceDriver.topic)[delivery] == 2)
    let truth = driver.ended()
    #expect((truth.accepted, truth.duplicates, truth.connections, truth.unanswered) == (3, 1, 1, 0))
  }
}
