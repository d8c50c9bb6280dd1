internal import Foundation
internal import Support
internal import Testing

@Suite("The service's users", .inProcess)
struct ServeUsersTests {
  private struct User: Decodable {
    struct Device: Decodable {
      struct Activity: Decodable {
        let activity: String?
        let type: String?
      }
      let token: String
      let userId: String
      let activities: [Activity]
    }
    let id: String
    let isComplete: Bool
    let devices: [Device]
  }

  private static func token(_ number: Int) -> String { HTTP2Site.token(number) }

  /// User `n` has the devices `10 * n` to `10 * n + n - 1`, the first of which are older.
  private static func register(_ campaigns: CampaignSite, users: ClosedRange<Int>) async throws {
    for user in users {
      for number in 0..<user {
        let path = "/users/user-\(user)/devices/\(token(10 * user + number))"
        let answer = try await campaigns.call("PUT", path, "{}")
        #expect(answer.status == 201, "\(answer.text)")
      }
    }
  }

  private func site() async throws -> (ServeSite, HTTP2Site.Service, ServeSite.Service, CampaignSite) {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate(
      rules: "http2: { refuse: [ { prefixes: [dead], reason: Unregistered, timestamp: 4102444800000 } ] }")
    try serve.configure(upstream, apps: ["news"])
    let key = try await serve.key(["--scope", "send", "--scope", "read", "--scope", "devices", "--scope", "campaigns"])
    let service = try await serve.start()
    return (serve, upstream, service, CampaignSite(service, key: key))
  }

  @Test("a user's devices get a notification each, or the newest alone, and the account says of all of them")
  func notifications() async throws {
    let (serve, upstream, service, site) = try await site()
    try await Self.register(site, users: 1...4)
    // The newest of the third one is found gone.
    let dead = HTTP2Site.token(1, prefix: "dead")
    #expect(try await site.call("PUT", "/devices/\(dead)", #"{"userId":"user-3"}"#).status == 201)
    func send(_ lines: [String]) async throws -> (ServeSite.TakenBatch, ServeSite.Batch.Account) {
      let body = lines.map { #"{\#($0),"payload":{"aps":{"alert":"a"}}}"# }.joined(separator: "\n")
      let answer = try await site.call(
        "POST", "/notifications:batch", body, headers: ["Content-Type": "application/x-ndjson"])
      #expect(answer.status == 202, "\(answer.text)")
      let batch = try answer.decoded(ServeSite.TakenBatch.self)
      return (batch, try await serve.account(of: batch.batchId, service, key: site.key))
    }
    let (first, account) = try await send([
      #""userId":"user-2""#, #""userId":"user-3","reference":"r""#, #""userId":"nobody""#,
      #""userId":"user-4","each":"user""#, #""token":"\#(Self.token(10))""#,
    ])
    #expect(first.queued == 2 + 4 + 1 + 1)
    #expect(first.rejected == 1)
    #expect(first.errors.first?.detail.contains("has no device") ?? false, "\(first)")
    #expect(account.accepted.confirmed == 7)
    // That one is suppressed now, so another one is the newest.
    let (second, other) = try await send([#""userId":"user-3","each":"user""#, #""userId":"user-3""#])
    #expect(second.queued == 1 + 4)
    #expect(other.accepted.confirmed == 1 + 3)
    #expect(other.suppressed == 1)
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
    let taken = try await serve.site.taken(upstream).compactMap(\.token)
    let counts = Dictionary(grouping: taken) { $0 }.mapValues(\.count)
    let wanted = [10: 1, 20: 1, 21: 1, 30: 2, 31: 2, 32: 3, 43: 1]
    #expect(counts == Dictionary(wanted.map { (Self.token($0), $1) }) { first, _ in first })
  }

  @Test("a campaign goes to each user once, among the devices that its filter leaves")
  func campaigns() async throws {
    let (serve, upstream, service, site) = try await site()
    try await Self.register(site, users: 1...5)
    // Two without a user, and the newest of the fifth one is no tablet.
    for number in [1, 2] { #expect(try await site.call("PUT", "/devices/\(Self.token(number))", "{}").status == 201) }
    for number in [50, 52, 30] {
      #expect(try await site.call("PUT", "/devices/\(Self.token(number))", #"{"tags":["tablet"]}"#).status == 200)
    }
    for (audience, count) in [
      (#""each":"user""#, 7), (#""each":"user","filter":{"all":["tablet"]}"#, 2), (#""each":"device""#, 17),
      (#""each":"user","filter":{"none":["tablet"]}"#, 7),
    ] {
      let path = try await site.make(#","audience":{"source":"devices",\#(audience)}"#)
      try await site.act(path, "start")
      let ended = try await site.ended(path)
      #expect(ended.progress.total == count, "\(audience)")
      #expect(try await site.account(path).accepted.confirmed == count, "\(audience)")
    }
    let upload = #"{"name":"a","payload":{"aps":{"alert":"a"}},"audience":{"each":"user"}}"#
    let answer = try await site.call("POST", "/campaigns", upload)
    #expect(answer.status == 400)
    #expect(answer.text.contains("Only stored devices have users"), "\(answer.text)")
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
    let taken = try await serve.site.taken(upstream).compactMap(\.token)
    let counts = Dictionary(grouping: taken) { $0 }.mapValues(\.count)
    // Once in each of four campaigns, if it is the newest everywhere.
    let wanted = [
      1: 3, 2: 3, 10: 3, 20: 1, 21: 3, 30: 2, 31: 1, 32: 3, 40: 1, 41: 1, 42: 1, 43: 3, 50: 1, 51: 1, 52: 2, 53: 1,
      54: 3,
    ]
    #expect(counts == Dictionary(wanted.map { (Self.token($0), $1) }) { first, _ in first })
  }

  @Test("after the retention, no file of the service has a token of a user who was forgotten", .ofStoreFile)
  func erasedFromDisk() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate(
      rules: "http2: { refuse: [ { prefixes: [dead], reason: Unregistered, timestamp: 4102444800000 } ] }")
    try serve.configure(upstream, apps: ["news"], more: "store: { path: store.db }\nretention: 60s")
    let key = try await serve.key(["--scope", "send", "--scope", "read", "--scope", "devices", "--scope", "campaigns"])
    let service = try await serve.start()
    let site = CampaignSite(service, key: key)
    // Not to be compressed.
    func random(_ prefix: String) -> String {
      prefix + String((prefix.count..<64).map { _ in "0123456789abcdef".randomElement() ?? "0" })
    }
    let tokens = ["a1", "dead"].map(random)
    for token in tokens {
      #expect(try await site.call("PUT", "/users/ada/devices/\(token)", "{}").status == 201)
      let activity = random("5a")
      let path = "/devices/\(token)/activity-types/Match"
      #expect(try await site.call("PUT", path, #"{"token":"\#(activity)"}"#).status == 201)
    }
    // From the store, and as rows of an upload.
    let line = #"{"userId":"ada","payload":{"aps":{"alert":"a"}}}"#
    let sent = try await site.call(
      "POST", "/notifications:batch", line, headers: ["Content-Type": "application/x-ndjson"])
    #expect(sent.status == 202, "\(sent.text)")
    let upload = try await site.make()
    _ = try await site.upload(upload, ["token"] + tokens)
    let stored = try await site.make(#","audience":{"source":"devices"}"#)
    for path in [upload, stored] {
      try await site.act(path, "start")
      #expect(try await site.ended(path).state == "finished")
    }
    func found() throws -> Set<String> { try Self.files(of: serve.site.place.url, with: tokens) }
    let before = try found()
    for place in ["store.db", "journal", "campaigns"] {
      #expect(before.contains { $0.contains(place) }, "\(place): \(before)")
    }
    #expect(try await site.call("DELETE", "/users/ada").status == 204)
    try await waitUntil("no file has a token") { try found().isEmpty }
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
    #expect(try found().isEmpty)
  }

  /// Files of the service that have a token, as bytes or in hexadecimal.
  private static func files(of folder: URL, with tokens: [String]) throws -> Set<String> {
    var found: Set<String> = []
    let files = FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil)
    while let file = files?.nextObject() as? URL {
      // What the gateway has taken, and what a person has written.
      guard !["truth.jsonl", "carillon.yaml"].contains(file.lastPathComponent),
        let content = try? Data(contentsOf: file)
      else { continue }
      for token in tokens {
        let text = [UInt8](token.utf8)
        let bytes = stride(from: 0, to: text.count, by: 2).map { place in
          UInt8(String(decoding: text[place..<(place + 2)], as: UTF8.self), radix: 16) ?? 0
        }
        if [text, bytes].contains(where: { content.range(of: Data($0)) != nil }) { found.insert(file.path()) }
      }
    }
    return found
  }

  @Test("what is known of a user can be read, and is forgotten with it")
  func erasure() async throws {
    let (serve, upstream, service, site) = try await site()
    try await Self.register(site, users: 2...3)
    // Encoded in an address.
    let mail = "ada%2Fhome@example.com"
    #expect(try await site.call("PUT", "/users/\(mail)/devices/\(Self.token(1))", #"{"language":"de"}"#).status == 201)
    let activity = #"{"token":"\#(HTTP2Site.token(1, prefix: "5a"))"}"#
    for place in ["activities/match", "activity-types/Match"] {
      #expect(try await site.call("PUT", "/devices/\(Self.token(1))/\(place)", activity).status == 201)
      _ = try await site.call("PUT", "/devices/\(Self.token(20))/\(place)", activity)
    }
    _ = try await site.call("PUT", "/devices/\(Self.token(1))/activities/match", activity)
    let user = try await site.call("GET", "/users/\(mail)").decoded(User.self)
    #expect(user.id == "ada/home@example.com")
    #expect(user.isComplete)
    #expect(user.devices.map(\.token) == [Self.token(1)])
    #expect(user.devices.first?.userId == "ada/home@example.com")
    #expect(user.devices.first?.activities.map(\.activity) == ["match"])
    #expect(try await site.call("GET", "/users/user-3").decoded(User.self).devices.count == 3)

    #expect(try await site.call("DELETE", "/users/user-2/devices/\(Self.token(30))").status == 404)
    #expect(try await site.call("DELETE", "/users/user-3/devices/\(Self.token(30))").status == 204)
    #expect(try await site.call("DELETE", "/users/\(mail)").status == 204)
    for gone in ["/users/\(mail)", "/devices/\(Self.token(1))", "/activities/match", "/users/nobody"] {
      #expect(try await site.call("GET", gone).status == 404, "\(gone)")
    }
    #expect(try await site.call("DELETE", "/users/\(mail)").status == 404)
    #expect(try await site.call("GET", "/users/user-3").decoded(User.self).devices.count == 2)
    for (method, path, body, sentence) in [
      ("GET", "/users/%20", nil, "printable ASCII"),
      ("PUT", "/devices/\(Self.token(1))", #"{"userId":"a b"}"#, "printable ASCII"),
      ("PUT", "/users/a/devices/\(Self.token(1))", #"{"userId":"b"}"#, "another user"),
      ("POST", "/notifications", #"{"userId":"user-3","payload":{"aps":{}}}"#, "notifications:batch"),
      (
        "POST", "/notifications", #"{"token":"\#(Self.token(1))","each":"user","payload":{"aps":{}}}"#,
        "several devices"
      ),
    ] as [(String, String, String?, String)] {
      let answer = try await site.call(method, path, body)
      #expect(answer.status == 400, "\(path): \(answer.text)")
      #expect(answer.text.contains(sentence), "\(path): \(answer.text)")
    }
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
    #expect(try await serve.site.taken(upstream).isEmpty)
  }
}
