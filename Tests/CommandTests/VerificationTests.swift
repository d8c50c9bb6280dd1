internal import Carillon
internal import Foundation
internal import Support
internal import Testing

@testable internal import CarillonCommand

/// Which differences between an account, a list of outcomes and a record are found.
struct VerificationTests {
  private typealias Files = VerificationFiles

  private let place: Workplace

  init() throws { place = try Workplace() }

  private func verify(
    topics: [String: String] = [:], _ change: (inout Files) -> Void = { _ in }
  ) throws -> Verification {
    var files = Files()
    change(&files)
    try files.write(to: place)
    return try Verification(
      account: place.path("account.json"), outcomes: place.path("list.csv"), record: place.path("record.jsonl"),
      topics: topics)
  }

  /// Expects a difference that is described in these words.
  private func expectDifference(
    _ sentence: String, sourceLocation: SourceLocation = #_sourceLocation, _ change: (inout Files) -> Void
  ) throws {
    let differences = try verify(change).differences
    #expect(
      differences.contains { $0.contains(sentence) }, "\(differences)", sourceLocation: sourceLocation)
  }

  @Test("files that agree have no differences")
  func equal() throws {
    let verification = try verify()
    #expect(verification.differences.isEmpty)
    #expect(verification.lineCount == 10)
    #expect(verification.rowCount == 2)
  }

  @Test("two topics that may both be the app are an error that asks for one")
  func ambiguousTopic() throws {
    let other: (inout Files) -> Void = { $0.record.append(Files.line(Files.token(1), app: "org.example.news")) }
    let error = #expect(throws: CarillonError.self) { try verify(other) }
    #expect(error?.message.contains("both be the app news: name its topic, as in news=com.example.news") == true)
    #expect(try verify(topics: ["news": "com.example.news"], other).apps.map(\.id) == ["news"])
  }

  @Test("a row that the list lacks")
  func missingRow() throws {
    let refused = Files.token(10, prefix: "dead")
    try expectDifference("news: \(refused) was refused with 8, and is not listed") { $0.list.removeFirst() }
    try expectDifference("news, rejected: malformed token: 1 in the account, 0 in the list") {
      $0.list.removeLast()
    }
  }

  @Test("a row too many: of a token that was accepted, that never arrived, or that is there already")
  func extraRow() throws {
    try expectDifference("news, line 3: is listed as rejected, 8 invalid token, but was accepted") {
      $0.list.append("3,\(Files.token(3)),rejected,8 invalid token")
    }
    try expectDifference("but the record has no refusal of it") {
      $0.list.append("12,\(Files.token(12)),rejected,8 invalid token")
    }
    try expectDifference("line 11 of news is listed twice") { $0.list.append($0.list[1]) }
    try expectDifference("news, line 4: is listed as cancelled, but was accepted") {
      $0.list.append("4,\(Files.token(4)),cancelled,")
    }
  }

  @Test("a row with another reason than the record's")
  func wrongReason() throws {
    try expectDifference("is listed as rejected, 7 invalid payload size, but was refused with 8") {
      $0.list[0] = $0.list[0].replacing("8 invalid token", with: "7 invalid payload size")
    }
    try expectDifference("was refused with 7") {
      $0.record[9] = $0.record[9].replacing("\"refused\":8", with: "\"refused\":7")
    }
  }

  @Test(
    "a count of the account that is too high or too low",
    arguments: [
      ("news, accepted: 10 in the account, 9 in the record", Files.account(submitted: 12, confirmed: 10)),
      ("news, accepted: 8 in the account, 9 in the record", Files.account(submitted: 10, confirmed: 8)),
      (
        "news, rejected: 8 invalid token: 2 in the account, 1 in the list, 1 in the record",
        Files.account(submitted: 12, invalid: 2)
      ),
      ("news, unknown: 1 in the account, 0 in the list", Files.account(submitted: 12, unknown: 1)),
      (
        "news: 12 were submitted by the account, and its outcomes are 11 together",
        Files.account(submitted: 12)
      ),
    ])
  func wrongCount(sentence: String, account: String) throws {
    try expectDifference(sentence) { $0.account = account }
  }

  @Test("a notification that arrived, and is not in the account; an app that it does not name")
  func strangers() throws {
    try expectDifference("news, accepted: 9 in the account, 10 in the record") {
      $0.record.append(Files.line(Files.token(77)))
    }
    try expectDifference("the record has 1 lines of com.example.chat, and the account does not name it") {
      $0.record.append(Files.line(Files.token(1), app: "com.example.chat"))
    }
  }

  @Test("copies are allowed as far as the account admits them")
  func copies() throws {
    let copy: (inout Files) -> Void = { $0.record.append($0.record[2]) }
    try expectDifference("news, arrived again, at most: 0 in the account, 1 in the record", copy)
    let admitted = try verify { files in
      copy(&files)
      files.account = Files.account(copies: 2)
    }
    #expect(admitted.differenceCount == 0, "\(admitted.differences)")
  }

  @Test("what is unknown may have arrived or not")
  func unknown() throws {
    for hasArrived in [true, false] {
      let verification = try verify { files in
        files.account = Files.account(confirmed: 8, unknown: 1)
        files.list.append("9,\(Files.token(9)),unknown,")
        if !hasArrived { files.record.remove(at: 8) }
      }
      #expect(verification.differenceCount == 0, "\(verification.differences)")
    }
  }
}
