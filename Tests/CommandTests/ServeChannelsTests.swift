internal import Foundation
internal import Support
internal import Testing

/// Broadcast channels over the API of a service.
@Suite("The service's channels")
struct ServeChannelsTests {
  private struct Channel: Decodable, Equatable {
    let channel: String
    let store: String
  }
  private struct Channels: Decodable { let items: [String] }
  private struct Page: Decodable {
    struct Outcome: Decodable {
      let id: String
      let token: String?
      let channel: String?
      let outcome: String
      let reason: String?
      let reference: String?
    }
    let items: [Outcome]
  }

  private static func encoded(_ channel: String) -> String {
    channel.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
  }

  private static func broadcast(to channel: String, expiration: Int) -> String {
    #"{"channel":"\#(channel)","expiration":\#(expiration),"reference":"goal","payload":{"aps":{"event":"update","#
      + #""timestamp":1700000000,"content-state":{"goals":2}}}}"#
  }

  @Test("a channel is created, listed, read, sent to and deleted, and broadcasts have outcomes", .inProcess)
  func life() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    try serve.configure(
      upstream, apps: ["news"], settings: "channels: { service: \"localhost:\(upstream.channelsPort)\" }")
    let key = try await serve.key(["--scope", "send", "--scope", "read"])
    let service = try await serve.start()
    func ask(_ path: String, method: String = "GET", body: String? = nil) async throws -> ServeSite.Reply {
      try await serve.request(service.api, "/v1/apps/news/\(path)", key: key, body: body, method: method)
    }

    let made = try await ask("channels", method: "POST", body: #"{"store":"none"}"#)
    #expect(made.status == 201, "\(made.text)")
    let channel = try made.decoded(Channel.self)
    #expect(channel.store == "none")
    #expect(channel.channel.count == 24)
    let usual = try await ask("channels", method: "POST", body: "{}").decoded(Channel.self)
    #expect(usual.store == "last")
    #expect(Set(try await ask("channels").decoded(Channels.self).items) == [channel.channel, usual.channel])
    let path = "channels/\(Self.encoded(channel.channel))"
    #expect(try await ask(path).decoded(Channel.self) == channel)

    var ids: [String] = []
    for expiration in [0, 1_900_000_000] {
      let reply = try await ask(
        "notifications", method: "POST", body: Self.broadcast(to: channel.channel, expiration: expiration))
      #expect(reply.status == 202, "\(reply.text)")
      ids.append(try reply.decoded(ServeSite.Queued.self).id)
    }
    var outcomes: [Page.Outcome] = []
    try await waitUntil("both have an outcome") {
      outcomes = try await ask("outcomes").decoded(Page.self).items
      return outcomes.count == 2
    }
    #expect(Set(outcomes.map(\.id)) == Set(ids))
    #expect(outcomes.allSatisfy { $0.token == nil && $0.channel == channel.channel && $0.reference == "goal" })
    let results = Dictionary(uniqueKeysWithValues: outcomes.map { ($0.id, $0) })
    #expect(results[ids[0]]?.outcome == "accepted")
    #expect(results[ids[1]]?.outcome == "rejected")
    #expect(results[ids[1]]?.reason == "400 BadExpirationDate")

    #expect(try await ask(path, method: "DELETE").status == 204)
    #expect(try await ask(path).status == 404)
    #expect(try await ask(path, method: "DELETE").status == 404)
    #expect(try await ask("channels").decoded(Channels.self).items == [usual.channel])
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
    upstream.simulator.send(SIGTERM)
    #expect(await upstream.simulator.ending().output.contains("\"broadcasts\":1"))
  }

  @Test("what cannot be a broadcast is refused with what is wrong, before anything is sent", .inProcess)
  func refused() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    try serve.configure(upstream, apps: ["news"])
    let key = try await serve.key(["--scope", "send"])
    let other = try await serve.key(["--scope", "feedback"])
    let service = try await serve.start()
    func refusal(
      _ path: String, body: String?, by key: String, method: String = "POST"
    ) async throws -> ServeSite.Problem {
      try await serve.request(service.api, "/v1/apps/news/\(path)", key: key, body: body, method: method)
        .decoded(ServeSite.Problem.self)
    }

    let aps = #""payload":{"aps":{"event":"update","timestamp":1,"content-state":{}}}"#
    for (body, status, sentence) in [
      (#"{"channel":"abc",\#(aps)}"#, 422, "expiration"),
      (#"{"channel":"abc","token":"\#(HTTP2Site.token(1))","expiration":0,\#(aps)}"#, 400, "goes to no device"),
      (#"{"channel":"abc","expiration":0,"pushType":"alert",\#(aps)}"#, 422, "liveactivity"),
      (#"{"channel":"\#(String(repeating: "a", count: 129))","expiration":0,\#(aps)}"#, 400, "more than 128 bytes"),
      (#"{"channel":"a\nb","expiration":0,\#(aps)}"#, 422, "channel"),
    ] {
      let problem = try await refusal("notifications", body: body, by: key)
      #expect(problem.status == status, "\(body): \(problem)")
      #expect(problem.detail.contains(sentence), "\(body): \(problem)")
    }
    struct Batch: Decodable {
      struct Line: Decodable { let detail: String }
      let rejected: Int
      let errors: [Line]
    }
    let batch = try await serve.request(
      service.api, "/v1/apps/news/notifications:batch", key: key, body: Self.broadcast(to: "abc", expiration: 0)
    ).decoded(Batch.self)
    #expect(batch.rejected == 1)
    #expect(batch.errors.first?.detail.contains("no line of a batch") == true, "\(batch)")

    // Nothing says who manages the channels of this gateway.
    let unknown = try await refusal("channels", body: "{}", by: key)
    #expect(unknown.status == 409)
    #expect(unknown.detail.contains("channels.service"), "\(unknown)")
    #expect(try await refusal("channels", body: #"{"store":"all"}"#, by: key).status == 400)
    #expect(try await refusal("channels", body: "{}", by: other).status == 403)
    #expect(try await refusal("channels/abc", body: nil, by: other, method: "DELETE").status == 403)
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
  }

  @Test("a service of channels that is away is no answer, and holds nobody else up", .inProcess)
  func away() async throws {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    // Nothing listens there.
    try serve.configure(upstream, apps: ["news"], settings: "channels: { service: \"localhost:1\" }")
    let key = try await serve.key(["--scope", "send", "--scope", "read"])
    let service = try await serve.start()
    let reply = try await serve.request(service.api, "/v1/apps/news/channels", key: key)
    #expect(reply.status == 503, "\(reply.text)")
    #expect(reply.text.contains("localhost:1"), "\(reply.text)")
    let sent = try await serve.request(
      service.api, "/v1/apps/news/notifications", key: key, body: ServeSite.body(HTTP2Site.token(1)))
    #expect(sent.status == 202)
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
  }
}
