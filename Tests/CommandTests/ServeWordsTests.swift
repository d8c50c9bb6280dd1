internal import Foundation
internal import Support
internal import Testing

@testable internal import CarillonCommand

/// What the service and its commands say to somebody who is wrong, or who wants to know what was
/// done.
@Suite("words of carillon serve and its commands", .timeLimit(.minutes(10)))
struct ServeWordsTests {
  private struct Sent: Decodable {
    let id: String
    let warnings: [String]?
  }

  private struct Batch: Decodable {
    struct Line: Decodable, Equatable {
      let line: Int
      let detail: String
    }
    let accepted: Int
    let rejected: Int
    let errors: [Line]
    let warnings: [Line]?
  }

  @Test("what is not there is named, and metrics and health say where they are", .inProcess)
  func missing() async throws {
    let running = try await RunningServe()
    for (path, words) in [
      ("/v1/apps/nope", [#"There is no app \"nope\" that this key may see."#]),
      ("/v1/apps/news/campaigns/nope", [#"There is no campaign \"nope\" of the app \"news\"."#]),
      ("/v1/apps/news/notifications/nope", [#"There is no notification \"nope\" of the app \"news\"."#]),
      ("/v1/apps/news/batches/nope", [#"There is no batch \"nope\""#]),
      ("/v1/apps/news/devices/\(HTTP2Site.token(1))", ["There is no device"]),
      ("/metrics", ["/metrics is not on this address", "admin.listen"]),
      ("/healthz", ["/healthz is not on this address", "admin.listen"]),
      ("/v1/nope", ["There is nothing at this address", "/v1/openapi.yaml"]),
    ] {
      let reply = try await running.call(path)
      #expect(reply.status == 404, "\(path): \(reply.text)")
      for word in words { #expect(reply.text.contains(word), "\(path): \(reply.text)") }
    }
    try await running.end()
  }

  @Test("a body that is no JSON is refused with line and column; in a batch, with the line and its column", .inProcess)
  func places() async throws {
    let running = try await RunningServe()
    let notifications = "/v1/apps/news/notifications"
    let reply = try await running.call(notifications, body: "{\"token\": \"é\",\n \"payload\": {\"aps\":{\"alert\":}}}")
    #expect(reply.status == 400)
    #expect(reply.text.contains("at line 2, column 29 there is an unexpected character"), "\(reply.text)")
    let lines = [ServeSite.body(HTTP2Site.token(1)), #"{"token":}"#].joined(separator: "\n")
    let batch = try await running.call("\(notifications):batch", body: lines).decoded(Batch.self)
    #expect(batch.accepted == 1)
    #expect(
      batch.errors == [
        Batch.Line(line: 2, detail: "The line is not JSON: at column 10 there is an unexpected character.")
      ])
    let array = try await running.call("\(notifications):batch", body: "[{},\n{\"a\":}]")
    #expect(array.text.contains("at line 2, column 6"), "\(array.text)")
    #expect(try await running.end().count == 1)
  }

  @Test("a token that was cut off is refused wherever one can be given, and nothing is sent to it", .inProcess)
  func shortTokens() async throws {
    let running = try await RunningServe()
    let cut = String(HTTP2Site.token(1).dropLast(2))
    let words = "The device token has 31 bytes, and Apple's have 32 or more: it was cut off."
    for short in ["0123", cut] {
      let single = try await running.call("/v1/apps/news/notifications", body: ServeSite.body(short))
      #expect(single.status == 400, "\(single.text)")
    }
    let single = try await running.call("/v1/apps/news/notifications", body: ServeSite.body(cut))
    #expect(single.text.contains(words), "\(single.text)")
    // The second line differs from the first in its token alone, so it is read by its shape.
    let lines = [HTTP2Site.token(1), cut].map(ServeSite.body).joined(separator: "\n")
    let batch = try await running.call("/v1/apps/news/notifications:batch", body: lines).decoded(Batch.self)
    #expect(batch.accepted == 1)
    #expect(batch.errors == [Batch.Line(line: 2, detail: "/token: \(words)")])
    let device = try await running.call("/v1/apps/news/devices/\(cut)", body: "{}", method: "PUT")
    #expect(device.status == 400, "\(device.text)")
    let imported = try await running.call(
      "/v1/apps/news/devices:import", body: "token\n\(cut)\n", headers: ["Content-Type": "text/csv"])
    #expect(imported.text.contains(words), "\(imported.text)")
    #expect(try await running.end().count == 1)
  }

  @Test(
    "placeholders and keys of aps that have no effect come back as warnings, and the notification is sent", .inProcess)
  func warnings() async throws {
    let running = try await RunningServe()
    let body = """
      {"token":"\(HTTP2Site.token(1))","payload":{"aps":{"alert":"Hello {{name}}","sond":"x"}}}
      """
    let sent = try await running.call("/v1/apps/news/notifications", body: body)
    #expect(sent.status == 202, "\(sent.text)")
    let warnings = try #require(try sent.decoded(Sent.self).warnings, "\(sent.text)")
    #expect(warnings.count == 2)
    #expect(warnings.contains { $0.hasPrefix("{{name}} is sent as it stands") }, "\(warnings)")
    #expect(warnings.contains { $0.hasPrefix("$.aps.sond: ") }, "\(warnings)")
    let plain = try await running.call("/v1/apps/news/notifications", body: ServeSite.body(HTTP2Site.token(2)))
    #expect(try plain.decoded(Sent.self).warnings == nil, "\(plain.text)")
    let lines = (3..<6).map { body.replacingOccurrences(of: HTTP2Site.token(1), with: HTTP2Site.token($0)) }
    let batch = try await running.call(
      "/v1/apps/news/notifications:batch", body: lines.joined(separator: "\n")
    ).decoded(Batch.self)
    #expect(batch.accepted == 3)
    #expect(batch.warnings?.map(\.line) == [1, 1], "lines that differ in their devices alone are named once")
    #expect(try await running.end().count == 5)
  }

  @Test("commands say what they did, and name the flag whose value the service refuses")
  func commands() async throws {
    let running = try await RunningServe()
    let place = running.serve.site.place
    try place.writeSecret(running.key, to: "api.key")
    try place.write(CampaignSite.hello, to: "hello.json")
    try place.write(HTTP2Site.token(1) + "\n", to: "tokens.txt")
    let service = ["--url", "http://127.0.0.1:\(running.service.api.port)", "--key-file", "api.key"]
    func command(_ words: [String]) async throws -> Ending { try await running.serve.site.run(words + service) }
    let paused = try await command(["app", "pause", "news"])
    #expect(paused.output == "The app news is paused: what is taken in waits until it is resumed.\n", "\(paused)")
    let resumed = try await command(["app", "resume", "news"])
    #expect(resumed.output.hasPrefix("The app news is resumed. Its state is "), "\(resumed)")
    let missing = try await command(["app", "pause", "nope"])
    expectOneSentence(missing, status: 2, containing: #"There is no app "nope" that this key may see."#)

    let campaign = ["campaign", "create", "--app", "news", "--name", "sale", "--payload", "hello.json"]
    let upload = ["--tokens", "tokens.txt"]
    for (flag, value) in [
      ("--send-at", "2027-01-31T09:00:00"), ("--local-time", "2027-01-31T09:00:00+01:00"),
      ("--quiet-hours", "25:00-08:00"),
    ] {
      let refused = try await command(campaign + upload + [flag, value])
      expectOneSentence(refused, status: 2, containing: #"\#(flag) "\#(value)": It must be"#)
    }
    let none = try await command(campaign + ["--devices", "--holdout", "100"])
    expectOneSentence(none, status: 2, containing: #"--holdout "100": It must be a whole number from 1 to 99."#)
    let some = try await command(campaign + ["--devices", "--holdout", "10", "--ignore-caps"])
    #expect(some.status == 0, "\(some)")
    let path = "/v1/apps/news/campaigns/\(some.output.trimmingCharacters(in: .whitespacesAndNewlines))"
    let asked = try await running.serve.request(running.service.api, path, key: running.key).text
    #expect(asked.contains(#""ignoreCaps":true"#), "\(asked)")
    #expect(asked.contains(#""holdoutPercent":10"#), "\(asked)")
    let made = try await command(
      campaign + upload + ["--send-at", "2099-01-31T09:00:00+01:00", "--expires-after", "7d"])
    #expect(made.status == 0, "\(made)")
    #expect(made.errors == "uploaded 1 line\n", "\(made)")
    let id = made.output.trimmingCharacters(in: .whitespacesAndNewlines)
    func act(_ action: String) async throws -> Ending { try await command(["campaign", action, "--app", "news", id]) }
    for (action, words) in [
      ("start", #"The campaign "sale" is started; its state is scheduled for 2099-01-31T09:00:00+01:00."#),
      ("pause", #"The campaign "sale" is paused; its state is paused"#),
      ("resume", #"The campaign "sale" is resumed; its state is scheduled"#),
      ("cancel", #"The campaign "sale" is cancelled; its state is cancelled"#),
    ] {
      let done = try await act(action)
      #expect(done.output.hasPrefix(words), "\(action): \(done)")
    }
    let wrong = try await command(["campaign", "start", "--app", "news", "nope"])
    expectOneSentence(wrong, status: 2, containing: #"There is no campaign "nope" of the app "news"."#)
    #expect(try await running.end().isEmpty)
  }

  @Test("the progress of an upload shows its share and the time that is left")
  func uploads() {
    let size = 20 << 20
    #expect(
      UploadDisplay.line(size / 4, of: size, in: .seconds(2)) == "5.0 of 20.0 MiB sent (25 %), about 6.00 s left")
    #expect(UploadDisplay.line(size, of: size, in: .seconds(2)) == "20.0 MiB sent; waiting for the service")
    #expect(UploadDisplay.line(size, of: nil, in: .seconds(2)) == "20.0 MiB sent")
  }
}
