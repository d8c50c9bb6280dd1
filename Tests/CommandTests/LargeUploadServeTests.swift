internal import Foundation
internal import Support
internal import Testing

@Suite("large bodies to carillon serve", .timeLimit(.minutes(20)))
struct LargeUploadServeTests {
  /// What a service may take more than before while it reads a body.
  private static let megabyteLimit = 12
  private static let bodyMegabytes = 16

  @Test("an audience and an import are streamed to the disk, and never held")
  func memory() async throws {
    let running = try await RunningServe.withCampaigns(more: ["devices"])
    let site = running.campaigns
    let usage = ProcessUsage(process: running.service.process)
    // Everything that the first requests need is there.
    _ = try await site.upload(try await site.make(), (0..<20_000).lazy.map { HTTP2Site.token($0) })
    let device = #"{"token":"\#(HTTP2Site.token(0))","tags":["fan"]}"#
    let first = try await site.call(
      "POST", "/devices:import", device, headers: ["Content-Type": "application/x-ndjson"])
    #expect(first.status == 200, "\(first.text)")
    func check(_ what: String, lineByteCount: Int, _ send: (Int) async throws -> Void) async throws {
      let before = try usage.peakMegabytes()
      let lineCount = Self.bodyMegabytes << 20 / lineByteCount
      try await send(lineCount)
      let grown = try usage.peakMegabytes() - before
      #expect(grown < Self.megabyteLimit, "\(what): \(grown) MB of \(Self.bodyMegabytes)")
    }
    let token = HTTP2Site.token(1)
    try await check("CSV", lineByteCount: token.utf8.count + 1) { lineCount in
      let path = try await site.make()
      let upload = try await site.upload(path, repeatElement(token, count: lineCount))
      #expect(upload == CampaignSite.Campaign.Upload(lines: lineCount, complete: true))
    }
    // Lines that are too long are the cheapest: they are skipped without being parsed.
    let line = #"{"token":"\#(token)","name":"\#(String(repeating: "x", count: 70_000))"}"#
    try await check("NDJSON", lineByteCount: line.utf8.count + 1) { lineCount in
      let path = try await site.make(payload: #"{"aps":{"alert":"Hello {{name}}"}}"#)
      let upload = try await site.upload(path, repeatElement(line, count: lineCount), headers: [:])
      #expect(upload.lines == lineCount)
    }
    // One line in a hundred is a device; the others are rejected, and the first ones are named.
    let wrong = #"{"token":"\#(token)","colour":"\#(String(repeating: "x", count: 20_000))"}"#
    try await check("import", lineByteCount: wrong.utf8.count + 1) { lineCount in
      let lines = (0..<lineCount).lazy.map { number in
        number % 100 == 0 ? #"{"token":"\#(HTTP2Site.token(number + 1))","tags":["fan"]}"# : wrong
      }
      struct Counts: Decodable {
        let created: Int
        let rejected: Int
      }
      let answer = try await site.call(
        "POST", "/devices:import", lines.joined(separator: "\n"), headers: ["Content-Type": "application/x-ndjson"])
      let counts = try answer.decoded(Counts.self)
      #expect(counts.created == (lineCount + 99) / 100)
      #expect(counts.created + counts.rejected == lineCount)
    }
    try await running.end()
  }
}
