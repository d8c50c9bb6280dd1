internal import Foundation
internal import Support
internal import Testing

@Suite("Caps and holdout groups of the service", .inProcess)
struct ServeCapsTests {
  /// Each user has two devices.
  private static let userCount = 150

  private static func token(_ user: Int, _ device: Int) -> String { HTTP2Site.token(10 * user + device) }

  private static func site(
    _ settings: String
  ) async throws -> (
    ServeSite, HTTP2Site.Service, ServeSite.Service, CampaignSite
  ) {
    let serve = try ServeSite()
    let upstream = try await serve.site.simulate()
    try serve.configure(upstream, apps: ["news"], settings: settings)
    let key = try await serve.key(["--scope", "send", "--scope", "read", "--scope", "devices", "--scope", "campaigns"])
    let service = try await serve.start()
    let site = CampaignSite(service, key: key)
    let lines = (0..<userCount).flatMap { user in
      (0..<2).map { #"{"token":"\#(token(user, $0))","userId":"user-\#(user)"}"# }
    }
    let answer = try await site.call(
      "POST", "/devices:import", lines.joined(separator: "\n"), headers: ["Content-Type": "application/x-ndjson"])
    #expect(answer.status == 200, "\(answer.text)")
    return (serve, upstream, service, site)
  }

  /// A campaign to everybody: whose devices got which outcome, by user.
  private static func run(_ site: CampaignSite, _ rest: String = "") async throws -> [String: Set<Int>] {
    let (account, path) = try await account(site, rest)
    let rows = try await site.outcomes(path)
    var users: [String: Set<Int>] = ["accepted": Set(0..<userCount)]
    for (outcome, count) in [("capped", account.capped ?? 0), ("holdout", account.holdout ?? 0)] {
      let tokens = Set(rows.filter { $0[2] == outcome }.map { $0[1] })
      #expect(tokens.count == count)
      let found = Set((0..<userCount).filter { tokens.contains(token($0, 0)) })
      // Both devices of a user, or none.
      #expect(tokens == Set(found.flatMap { user in (0..<2).map { token(user, $0) } }))
      users[outcome] = found
      users["accepted"]?.subtract(found)
    }
    #expect(account.accepted.confirmed == 2 * (users["accepted"]?.count ?? 0))
    return users
  }

  private static func account(_ site: CampaignSite, _ rest: String) async throws -> (SentAccount.App, path: String) {
    let path = try await site.make(#","audience":{"source":"devices"}\#(rest)"#)
    try await site.act(path, "start")
    let ended = try await site.ended(path)
    let account = try await site.account(path)
    #expect(ended.progress.total == 2 * userCount)
    #expect(account.submitted == 2 * userCount)
    #expect(account.sum == account.submitted, "the sum is exact")
    return (account, path)
  }

  @Test("who is capped or held out gets nothing, and account, list and the gateway's record say so")
  func campaigns() async throws {
    let (serve, upstream, service, site) = try await Self.site(
      "caps: [{ per: 24h, count: 2 }]\n    holdout-percent: 20")
    var wanted: [Int] = []
    func run(_ rest: String = "") async throws -> [String: Set<Int>] {
      let users = try await Self.run(site, rest)
      wanted += users["accepted"] ?? []
      return users
    }
    let first = try await run()
    let held = first["holdout"] ?? []
    let others = Set(0..<Self.userCount).subtracting(held)
    #expect((10...50).contains(held.count), "20 % of 150, more or less: \(held.count)")
    #expect(first["accepted"] == others)
    // A dry run counts nobody.
    #expect(try await Self.account(site, #","dryRun":true"#).0.capped == 0)
    // A group of its own beside the other; those in it are not counted for the caps.
    let second = try await run(#","holdoutPercent":30"#)
    let own = second["holdout"]?.subtracting(held) ?? []
    #expect(second["holdout"]?.isSuperset(of: held) == true)
    #expect((15...65).contains(own.count), "30 % of \(others.count), more or less: \(own.count)")
    let dry = try await Self.account(site, #","dryRun":true"#).0
    #expect(dry.capped == 2 * (others.count - own.count))
    #expect(dry.holdout == 2 * held.count)
    #expect(dry.cancelled == 2 * own.count)
    let third = try await run()
    #expect(third["holdout"] == held)
    #expect(third["capped"] == others.subtracting(own))
    #expect(third["accepted"] == own)
    #expect(try await run(#","ignoreCaps":true"#)["accepted"] == others)
    #expect(try await run()["accepted"] == [])
    // Another group of the same size.
    let fourth = try await run(#","ignoreCaps":true,"holdoutPercent":30"#)
    #expect(fourth["holdout"] != second["holdout"])
    // Whoever was forgotten is a new user.
    let user = try #require(others.min())
    #expect(try await site.call("DELETE", "/users/user-\(user)").status == 204)
    for device in 0..<2 {
      let path = "/users/user-\(user)/devices/\(Self.token(user, device))"
      #expect(try await site.call("PUT", path, "{}").status == 201)
    }
    #expect(try await run()["accepted"] == [user])
    let stream = try await site.call("GET", "/outcomes?limit=1000", headers: ["Accept": "application/json"]).text
    for outcome in ["capped", "holdout"] { #expect(stream.contains(#""outcome":"\#(outcome)""#)) }
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
    let taken = try await serve.site.taken(upstream).compactMap(\.token)
    #expect(taken.sorted() == wanted.flatMap { user in (0..<2).map { Self.token(user, $0) } }.sorted())
  }

  @Test("what cannot be withheld from is refused with what to do")
  func refused() async throws {
    let (serve, upstream, service, site) = try await Self.site("holdout-percent: 1")
    for (rest, sentence) in [
      (#","holdoutPercent":10"#, "Only stored devices have holdout groups"),
      (#","audience":{"source":"devices"},"holdoutPercent":0"#, "holdoutPercent"),
      (#","audience":{"source":"devices"},"holdoutPercent":100"#, "holdoutPercent"),
      (#","audience":{"source":"devices"},"ignoreCaps":1"#, "ignoreCaps"),
    ] {
      let body = #"{"name":"a","payload":{"aps":{"alert":"a"}}\#(rest)}"#
      let answer = try await site.call("POST", "/campaigns", body)
      #expect(answer.status == 400, "\(rest)")
      #expect(answer.text.contains(sentence), "\(answer.text)")
    }
    service.process.send(SIGTERM)
    #expect(await service.process.ending().status == 0)
    #expect(try await serve.site.taken(upstream).isEmpty)
  }
}
