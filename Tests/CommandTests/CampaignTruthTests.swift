internal import Foundation
internal import PushWire
internal import Support
internal import Testing

// Testable, because only gateways make frames otherwise.
@testable internal import PushGateway

/// The check of the crash matrix must find planted errors.
struct CampaignTruthTests {
  private let audience: TestAudience
  private let accepted: [Int]

  init() {
    var random = SeededGenerator(seed: 11)
    let shape = TestAudience.Shape(count: 200, isPersonal: true, refusedCount: 5, malformedCount: 5, tooLargeCount: 1)
    let audience = TestAudience(app: "news", topic: "com.example.news", index: 0, shape: shape, using: &random)
    self.audience = audience
    accepted = audience.lines.indices.filter { audience.lines[$0].kind == .good }
  }

  private func row(_ index: Int, _ outcome: String, _ reason: String) -> OutcomeRow {
    OutcomeRow(
      line: index + audience.firstLine, token: audience.lines[index].text, outcome: outcome, reason: reason, app: nil,
      tokens: nil)
  }

  private func frame(_ index: Int, topic: String = "com.example.news") -> RecordedFrames.Frame {
    RecordedFrames.Frame(
      topic: topic, connection: 1, token: audience.lines[index].token, payload: audience.payload(index))
  }

  /// The truth of an exact campaign whose account has this number of possible duplicates.
  private func truth(
    possibleDuplicates: Int = 0, copies: Int? = nil, onUnknown: String = "resend"
  ) throws -> CampaignTruth {
    let reasons: [TestAudience.Kind: String] = [
      .refused: "8 invalid token", .malformed: "malformed token", .tooLarge: "payload too large",
    ]
    let rows = audience.lines.indices.compactMap { index in
      reasons[audience.lines[index].kind].map { row(index, "rejected", $0) }
    }
    let byReason = Dictionary(grouping: rows, by: \.reason).map { "\"\($0.key)\":\($0.value.count)" }.joined(
      separator: ",")
    let text = """
      {"apps":{"news":{"submitted":200,"accepted":{"confirmed":\(accepted.count),"quiet":0},\
      "rejected":{"total":\(rows.count),"byReason":{\(byReason)}},\
      "suppressed":0,"expired":0,"held":0,"cancelled":0,"unknown":0,"resent":0,\
      "possibleDuplicates":\(possibleDuplicates),"possibleCopies":\(copies ?? possibleDuplicates),\
      "notes":[],"neverRead":[]}},"seconds":1,"perSecond":1}
      """
    let account = try #require(SentAccount(Ending(status: 1, output: text, errors: "")))
    return CampaignTruth(
      audiences: [audience], onUnknown: onUnknown, account: account, rows: rows, frames: accepted.map { frame($0) })
  }

  private func expect(_ truth: CampaignTruth, _ problem: String, sourceLocation: SourceLocation = #_sourceLocation) {
    #expect(truth.problems().contains { $0.contains(problem) }, "\(truth.problems())", sourceLocation: sourceLocation)
  }

  @Test("an exact campaign has no problems")
  func sound() throws {
    #expect(try truth().problems().isEmpty)
    var twice = try truth(possibleDuplicates: 1)
    twice.frames.append(frame(accepted[0]))
    #expect(twice.problems().isEmpty)
    #expect(twice.duplicateCount == 1)
  }

  @Test("lost notifications, and more duplicates than the account allows, are found")
  func arrivals() throws {
    var lost = try truth()
    lost.frames.remove(at: 17)
    expect(lost, "is lost")
    var twice = try truth()
    twice.frames.append(frame(accepted[0]))
    expect(twice, "1 arrived twice, the account allows 0")
    var thrice = try truth(possibleDuplicates: 1)
    thrice.frames += [frame(accepted[0]), frame(accepted[0])]
    expect(thrice, "2 copies arrived, the account allows 1")
    thrice = try truth(possibleDuplicates: 1, copies: 2)
    thrice.frames += [frame(accepted[0]), frame(accepted[0])]
    #expect(thrice.problems().isEmpty)
    expect(try truth(possibleDuplicates: 1, onUnknown: "hold"), "resent in spite of on-unknown: hold")
    expect(try truth(possibleDuplicates: 1, onUnknown: "drop"), "resent in spite of on-unknown: drop")
  }

  @Test("a wrong payload, a wrong topic and an unknown token are found")
  func frames() throws {
    var other = try truth()
    other.frames[3].payload = audience.payload(accepted[4])
    expect(other, "arrived with the payload of another line")
    var elsewhere = try truth()
    elsewhere.frames[3] = frame(accepted[3], topic: "com.example.chat")
    expect(elsewhere, "arrived through com.example.chat")
    var stranger = try truth()
    stranger.frames[3].token = TokenBytes(bytes: [1, 2, 3])
    expect(stranger, "an unknown token arrived")
  }

  @Test("a missing row, an extra row and a wrong row are found")
  func rows() throws {
    var missing = try truth()
    missing.rows.removeFirst()
    expect(missing, "counts as accepted")
    var double = try truth()
    double.rows.append(double.rows[0])
    expect(double, "is listed twice")
    var extra = try truth()
    extra.rows.append(row(accepted[0], "cancelled", ""))
    expect(extra, "ended as cancelled")
    var wrong = try truth()
    wrong.rows.append(row(accepted[0], "rejected", "8 invalid token"))
    expect(wrong, "counts as refused")
    var held = try truth()
    held.rows.append(row(accepted[0], "held", ""))
    expect(held, "ended as held")
  }

  @Test("in a stopped campaign, a cancelled notification that arrived and a wrong count are found")
  func stopped() throws {
    var stopped = try truth()
    stopped.isWhole = false
    #expect(stopped.problems().isEmpty)
    stopped.rows.append(row(accepted[0], "cancelled", ""))
    expect(stopped, "counts as cancelled but arrived")
    var fewer = try truth()
    fewer.isWhole = false
    fewer.frames.removeLast()
    expect(fewer, "200 submitted by the account, 199 by the lines")
  }
}
