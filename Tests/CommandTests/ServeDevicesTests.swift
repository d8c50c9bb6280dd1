internal import Foundation
internal import Support
internal import Testing

@Suite("Devices of carillon serve", .inProcess, .timeLimit(.minutes(20)))
struct ServeDevicesTests {
  private struct Device: Decodable, Hashable {
    let id: String
    let token: String
    let language: String?
    let timeZone: String?
    let tags: [String]
    let suppressed: Bool
    let goneAt: String?
  }

  private struct List: Decodable {
    let items: [Device]
    let nextCursor: String?
  }

  private struct Imported: Decodable, Equatable {
    struct Defect: Decodable, Equatable {
      let line: Int
      let detail: String
    }
    let created: Int
    let updated: Int
    let rejected: Int
    let errors: [Defect]
  }

  private struct Finished: Decodable {
    let outcome: String?
    let reference: String?
  }

  private static let path = "/v1/apps/news/devices"

  @Test("a device is registered, changed, listed by tag, gets another token and is removed")
  func device() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    try serve.configure(upstream)
    let key = try await serve.key(["--scope", "devices"])
    let reader = try await serve.key(["--scope", "read"])
    let service = try await serve.start()
    let token = HTTP2Site.token(1)
    func call(_ path: String, _ method: String = "GET", _ body: String? = nil) async throws -> ServeSite.Reply {
      try await serve.request(service.api, path, key: key, body: body, method: method)
    }
    #expect(try await call("\(Self.path)/\(token)").status == 404)
    let created = try await call(
      "\(Self.path)/\(token)", "PUT", #"{"language":"EN-gb","timeZone":"Europe/Berlin","tags":["Sport","a"]}"#)
    #expect(created.status == 201, "\(created.text)")
    let device = try created.decoded(Device.self)
    #expect(device.language == "en-GB")
    #expect(device.timeZone == "Europe/Berlin")
    #expect(device.tags == ["a", "sport"])
    #expect(!device.suppressed)
    // What is left out stays; null removes.
    let changed = try await call("\(Self.path)/\(token)", "PUT", #"{"timeZone":null}"#)
    #expect(changed.status == 200)
    #expect(try changed.decoded(Device.self).timeZone == nil)
    #expect(try changed.decoded(Device.self).tags == ["a", "sport"])
    #expect(try await call("\(Self.path)/\(token)", "PUT").status == 200)

    let next = HTTP2Site.token(2)
    let moved = try await call("\(Self.path)/\(next)", "PUT", #"{"replacesToken":"\#(token)"}"#)
    #expect(moved.status == 200, "\(moved.text)")
    #expect(try moved.decoded(Device.self).id == device.id)
    #expect(try moved.decoded(Device.self).tags == ["a", "sport"])
    #expect(try await call("\(Self.path)/\(token)").status == 404)

    for index in 10..<15 {
      let reply = try await call("\(Self.path)/\(HTTP2Site.token(index))", "PUT", #"{"tags":["b"]}"#)
      #expect(reply.status == 201)
    }
    var found: [Device] = []
    var cursor: String?
    repeat {
      let page = try await call("\(Self.path)?tag=b&limit=2" + (cursor.map { "&cursor=\($0)" } ?? ""))
        .decoded(List.self)
      found += page.items
      cursor = page.nextCursor
    } while cursor != nil
    #expect(found.map(\.token) == (10..<15).map { HTTP2Site.token($0) })
    #expect(try await call(Self.path).decoded(List.self).items.count == 6)

    #expect(try await call("\(Self.path)/\(next)", "DELETE").status == 204)
    #expect(try await call("\(Self.path)/\(next)", "DELETE").status == 404)

    for (body, pointer) in [
      (#"{"language":"english language"}"#, "/language"), (#"{"timeZone":"CET"}"#, "/timeZone"),
      (#"{"timeZone":"../../etc/passwd"}"#, "/timeZone"), (#"{"tags":["two words"]}"#, "/tags"),
      (#"{"tags":"a"}"#, "/tags"), (#"{"tag":["a"]}"#, "/tag"), (#"{"replacesToken":"xyz"}"#, "/replacesToken"),
      (#"{"registeredAt":"2026-01-01T00:00:00Z"}"#, "/registeredAt"),
    ] {
      let reply = try await call("\(Self.path)/\(token)", "PUT", body)
      #expect(reply.status == 400, "\(body)")
      #expect(try reply.decoded(ServeSite.Problem.self).errors?.map(\.pointer) == [pointer], "\(body)")
    }
    let refused = try await serve.request(
      service.api, "\(Self.path)/\(token)", key: reader, body: "{}", method: "PUT")
    #expect(refused.status == 403)
    #expect(try await serve.request(service.api, Self.path, key: reader).status == 200)
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
  }

  @Test("a device whose token is gone is suppressed until it registers again")
  func suppression() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate(
      rules: "http2: { refuse: [ { prefixes: [dead], reason: Unregistered, timestamp: 4000000000000 } ] }")
    try serve.configure(upstream)
    let key = try await serve.key(["--scope", "devices", "--scope", "send", "--scope", "read"])
    let service = try await serve.start()
    let token = HTTP2Site.token(1, prefix: "dead")
    _ = try await serve.request(service.api, "\(Self.path)/\(token)", key: key, body: "{}", method: "PUT")
    let sent = try await serve.request(
      service.api, "/v1/apps/news/notifications", key: key, body: ServeSite.body(token))
    let outcome = try await serve.finished(try sent.decoded(ServeSite.Queued.self).id, service, key: key)
    #expect(outcome.reason == "410 Unregistered")
    let device = try await serve.request(service.api, "\(Self.path)/\(token)", key: key).decoded(Device.self)
    #expect(device.suppressed)
    #expect(device.goneAt == "2096-10-02T07:06:40.000Z")
    // The service says that it was gone in the future, so registering now changes nothing.
    let again = try await serve.request(service.api, "\(Self.path)/\(token)", key: key, body: "{}", method: "PUT")
    #expect(try again.decoded(Device.self).suppressed)
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
  }

  @Test("a notification goes to a device by its id, and to a suppressed one not at all; references are kept")
  func deviceIDs() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate(
      rules: "http2: { refuse: [ { prefixes: [dead], reason: Unregistered, timestamp: 4000000000000 } ] }")
    try serve.configure(upstream)
    let key = try await serve.key(["--scope", "devices", "--scope", "send", "--scope", "read"])
    let service = try await serve.start()
    let path = "/v1/apps/news/notifications"
    func device(_ token: String) async throws -> Device {
      try await serve.request(service.api, "\(Self.path)/\(token)", key: key, body: "{}", method: "PUT")
        .decoded(Device.self)
    }
    func body(_ id: String, _ reference: String) -> String {
      #"{"deviceId":"\#(id)","payload":{"aps":{"alert":"Hello"}},"reference":"\#(reference)"}"#
    }
    func finished(_ reply: ServeSite.Reply) async throws -> Finished {
      #expect(reply.status == 202, "\(reply.text)")
      let queued: ServeSite.Queued = try reply.decoded(ServeSite.Queued.self)
      let id = queued.id
      _ = try await serve.finished(id, service, key: key)
      return try await serve.request(service.api, "\(path)/\(id)", key: key).decoded(Finished.self)
    }
    let good = try await device(HTTP2Site.token(1))
    let sent = try await finished(
      try await serve.request(service.api, path, key: key, body: body(good.id, "order 7")))
    #expect(sent.outcome == "accepted")
    #expect(sent.reference == "order 7")
    let gone = try await device(HTTP2Site.token(2, prefix: "dead"))
    let first = try await finished(try await serve.request(service.api, path, key: key, body: body(gone.id, "a")))
    #expect(first.outcome == "rejected")
    let second = try await serve.request(service.api, path, key: key, body: body(gone.id, "b"))
    #expect(try second.decoded(ServeSite.Queued.self).state == "finished")
    let suppressed = try await finished(second)
    #expect(suppressed.outcome == "suppressed")
    #expect(suppressed.reference == "b")
    let unknown = "01932c07-0000-7000-8000-000000000000"
    let refused = try await serve.request(service.api, path, key: key, body: body(unknown, "c"))
    #expect(refused.status == 422)
    #expect(refused.text.contains(unknown))
    for (wrong, pointer) in [
      (body("none", ""), "/deviceId"), (body(good.id, String(repeating: "x", count: 129)), "/reference"),
      (#"{"deviceId":"\#(good.id)","token":"ab","payload":{}}"#, "/deviceId"),
    ] {
      let reply = try await serve.request(service.api, path, key: key, body: wrong)
      #expect(reply.status == 400)
      #expect(try reply.decoded(ServeSite.Problem.self).errors?.map(\.pointer) == [pointer])
    }

    let lines = [
      ServeSite.body(HTTP2Site.token(5)), body(unknown, "x"), body(good.id, "y"), body(gone.id, "z"),
      ServeSite.body(HTTP2Site.token(6)),
    ]
    let taken = try await serve.request(service.api, path + ":batch", key: key, body: lines.joined(separator: "\n"))
      .decoded(ServeSite.TakenBatch.self)
    #expect(taken.queued == 4)
    #expect(taken.errors.map(\.line) == [2])
    let account = try await serve.account(of: taken.batchId, service, key: key)
    #expect(account.submitted == 4)
    #expect(account.suppressed == 1)
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
    let record = try await serve.site.taken(upstream)
    #expect(record.compactMap(\.token).sorted() == [1, 1, 5, 6].map { HTTP2Site.token($0) })
  }

  @Test("an import counts what it did, names lines that are wrong, and can be repeated", arguments: [false, true])
  func imports(isTable: Bool) async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    try serve.configure(upstream)
    let key = try await serve.key(["--scope", "devices"])
    let service = try await serve.start()
    var lines = (0..<1_300).map { index in
      isTable
        ? "\(HTTP2Site.token(index)),de,\"t\(index % 3) all\",2026-01-02T03:04:05.678+01:00"
        : #"{"token":"\#(HTTP2Site.token(index))","language":"de","tags":["t\#(index % 3)","all"]}"#
    }
    lines[4] = isTable ? "xyz,de,," : #"{"token":"xyz"}"#
    lines[1_000] = String(repeating: "x", count: 40_000)
    lines[1_100] = isTable ? "\(HTTP2Site.token(5000)),de,,2999-01-01T00:00:00Z" : #"{"token":"ab","tags":[1]}"#
    lines[1_200] = ""
    if isTable { lines.insert("token,language,tags,registeredAt", at: 0) }
    let body = lines.joined(separator: "\r\n")
    func upload() async throws -> Imported {
      let reply = try await serve.request(service.api, "\(Self.path):import", key: key, body: body)
      #expect(reply.status == 200, "\(reply.text)")
      return try reply.decoded(Imported.self)
    }
    let first = try await upload()
    #expect(first.created == 1_296)
    #expect(first.updated == 0)
    #expect(first.rejected == 3)
    #expect(first.errors.map(\.line) == [5, 1_001, 1_101].map { isTable ? $0 + 1 : $0 })
    let second = try await upload()
    #expect(second.created == 0)
    #expect(second.updated == 1_296)
    let page = try await serve.request(service.api, "\(Self.path)?tag=t1&limit=1000", key: key).decoded(List.self)
    #expect(page.items.count == (0..<1_300).filter { $0 % 3 == 1 && ![4, 1_000, 1_100, 1_200].contains($0) }.count)
    #expect(page.items.allSatisfy { $0.language == "de" })
    let nonsense = try await serve.request(service.api, "\(Self.path):import", key: key, body: "Dear all,\nhello")
    #expect(nonsense.status == 400)
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
  }
}
