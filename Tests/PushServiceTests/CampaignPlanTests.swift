internal import Foundation
internal import PushStore
internal import Support
internal import Testing

@testable internal import PushService

@Suite("audiences of campaigns")
struct CampaignPlanTests {
  @Test(
    "a language's payload is that of its tag, or of the longest beginning",
    arguments: [
      ("de", "de"), ("DE-at", "de"), ("pt-BR", "pt-BR"), ("pt_br", "pt-BR"), ("pt-PT", "pt"), ("d", nil), ("", nil),
      ("en", nil), ("deu", nil), ("zh-Hant-TW", "zh-Hant"),
    ])
  func languages(language: String, expected: String?) {
    let variants = Dictionary(uniqueKeysWithValues: ["de", "pt", "pt-BR", "zh-Hant"].map { ($0, $0) })
    #expect(LanguageTag.best(language, in: variants) == expected)
  }

  @Test("tags and languages of a filter are those that devices have, however they are typed")
  func filters() throws {
    func filter(_ text: String) throws -> AudienceFilter {
      let body =
        #"{"name":"x","payload":{"aps":{}},"audience":{"source":"devices","filter":\#(text)}}"#
      return try CampaignPlan(parsing: Array(body.utf8)[...]).filter
    }
    let found = try filter(
      #"{"all":["Sport"],"any":["CAFE\u0301","b"],"none":["SPAM"],"languages":["DE","pt_br"]}"#)
    #expect(
      found == AudienceFilter(all: ["sport"], any: ["caf\u{e9}", "b"], none: ["spam"], languages: ["de", "pt-BR"]))
    for text in [#"{"all":["two words"]}"#, #"{"none":[""]}"#, #"{"languages":["x"]}"#] {
      let problem = #expect(throws: Problem.self) { try filter(text) }
      #expect(problem?.errors.first?.pointer?.hasPrefix("/audience/filter/") == true, "\(text)")
    }
  }

  @Test("an upload in any pieces is the same file; what is cut off ends with a line")
  func pieces() throws {
    let seed = SeededGenerator.freshSeed()
    var random = SeededGenerator(seed: seed)
    let place = try Workplace()
    let rows = AudienceRows(placeholders: ["name"])
    for round in 0..<60 {
      let isJSON = round % 2 == 0
      let lines = (0..<200).map { number in
        number % 50 < round % 3
          ? ""
          : isJSON
            ? #"{"token":"ab\#(number)","name":"N, \"\#(number)\"","language":"de"}"#
            : number == round % 3 ? "token,name" : "ab\(number),N\(number)"
      }
      let text = Array((lines.joined(separator: "\n") + (round % 3 == 0 ? "" : "\n")).utf8)
      let path = place.path("audience-\(round)")
      var progress = StoredUpload()
      var isDone = false
      while !isDone {
        // What was kept before is sent again in part.
        let again = Int64.random(in: 0...min(5, progress.lineCount), using: &random)
        let first = Int(progress.lineCount - again)
        let rest = Array(lines[first...].joined(separator: "\n").utf8) + (round % 3 == 0 ? [] : [10])
        var upload = try AudienceUpload(path: path, progress: progress, skipping: again, rows: rows)
        let end = Bool.random(using: &random) ? rest.count : Int.random(in: 0...rest.count, using: &random)
        var position = 0
        while position < end {
          let next = min(end, position + Int.random(in: 1...700, using: &random))
          try upload.take(rest[position..<next])
          position = next
        }
        isDone = end == rest.count
        if isDone { try upload.complete() } else { try upload.cut() }
        progress = upload.progress
      }
      #expect(progress.lineCount == 200, "seed \(seed), round \(round)")
      #expect(progress.isComplete)
      let found = try place.read("audience-\(round)")
      #expect(Int64(found.utf8.count) == progress.byteCount, "seed \(seed), round \(round)")
      if isJSON {
        #expect(found.split(separator: "\n").count == 201 - 4 * (round % 3), "seed \(seed), round \(round)")
        #expect(found.split(separator: "\n", omittingEmptySubsequences: false).count == 202)
        #expect(found.contains("ab7,,,de,,\"N, \"\"7\"\"\"\n"))
      } else {
        let expected = String(decoding: text, as: UTF8.self)
        #expect(found == (expected.hasSuffix("\n") ? expected : expected + "\n"), "seed \(seed), round \(round)")
      }
    }
  }
}
