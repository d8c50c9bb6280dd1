internal import Carillon
internal import Foundation
internal import PushEngine
internal import PushWire
internal import Support
internal import Testing

@testable internal import PushSend

/// The account as JSON, numbers as text, and the list of outcomes.
struct RenderingTests {
  /// Names and reasons that JSON must escape.
  private var account: AccountSnapshot {
    var quoted = AccountSnapshot.App(id: "news \"1\"")
    quoted.account.rejectedByReason = ["a \"reason\"": 1]
    return AccountSnapshot(apps: [quoted, AccountSnapshot.App(id: "chat")], seconds: 2)
  }

  @Test("the account as JSON has exactly the documented form")
  func json() {
    var app = AccountSnapshot.App(id: "a")
    app.account.submitted = 3
    app.account.confirmed = 1
    app.account.quiet = 1
    app.account.rejectedByReason = ["8 invalid token": 1]
    let expected =
      #"{"apps":{"a":{"submitted":3,"accepted":{"confirmed":1,"quiet":1},"#
      + #""rejected":{"total":1,"byReason":{"8 invalid token":1}},"suppressed":0,"capped":0,"#
      + #""holdout":0,"expired":0,"held":0,"cancelled":0,"unknown":0,"resent":0,"#
      + #""possibleDuplicates":0,"possibleCopies":0,"#
      + #""notes":[],"neverRead":[]}},"seconds":0.500,"perSecond":6.000}"#
    #expect(AccountJSON.text(AccountSnapshot(apps: [app], seconds: 0.5)) == expected)
    #expect(throws: Never.self) { try JSONSerialization.jsonObject(with: Data(AccountJSON.text(account).utf8)) }
  }

  @Test("notes and what was never read are in the app's JSON object")
  func notes() {
    var account = account
    account.apps[0].failure = "no progress for 15 min: 503 ServiceUnavailable"
    account.apps[0].notes = ["503 ServiceUnavailable (1,200 times within 15 min)"]
    account.apps[1].neverRead = [
      UnreadPart(
        tokens: "b.txt",
        unread: AudienceUnread(line: 766, byteCount: 617, fileByteCount: 1000, estimatedLineCount: 1_234)),
      UnreadPart(tokens: "c.txt", unread: AudienceUnread(line: 1, byteCount: 1000, fileByteCount: 1000)),
      UnreadPart(tokens: "-", unread: AudienceUnread(line: 1_000_001)),
    ]
    let json = AccountJSON.text(account)
    #expect(throws: Never.self) { try JSONSerialization.jsonObject(with: Data(json.utf8)) }
    #expect(
      json.contains(
        #""notes":["stopped: no progress for 15 min: 503 ServiceUnavailable","#
          + #""503 ServiceUnavailable (1,200 times within 15 min)"]"#))
    #expect(
      json.contains(
        #""neverRead":[{"tokens":"b.txt","fromLine":766,"bytes":617,"ofBytes":1000},"#
          + #"{"tokens":"c.txt","fromLine":1,"bytes":1000,"ofBytes":1000},"#
          + #"{"tokens":"-","fromLine":1000001}]"#), "\(json)")
  }

  @Test("numbers and times are formatted")
  func numbers() {
    for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (-1_234_567, "-1,234,567")] {
      #expect(NumberText.grouped(number) == text)
    }
    for (seconds, text) in [
      (0.0, "0.00 s"), (9.994, "9.99 s"), (9.996, "10.0 s"), (59.94, "59.9 s"), (59.96, "1 min 00 s"),
      (125, "2 min 05 s"), (3725, "1 h 02 min"),
    ] {
      #expect(NumberText.seconds(seconds) == text)
    }
    var json = JSONWriter()
    json.object {
      $0.field("a", 0.0005)
      $0.field("b", -1.5)
      $0.field("c", Double.infinity)
      $0.field("d", 1234567.891)
    }
    #expect(json.text == #"{"a":0.001,"b":-1.500,"c":0,"d":1234567.891}"#)
  }

  @Test("notifications that were not accepted are listed as CSV, with every field safe for spreadsheets")
  func outcomes() throws {
    let place = try Workplace()
    let file = try OutcomesFile(path: place.path("out.csv"), columns: OutcomesColumns())
    let listener = file.listener(app: "news", tokens: "t.csv")
    listener.notAccepted(line: 3, token: "ab", outcome: .rejected(.status(.invalidToken)))
    listener.notAccepted(line: 4, token: "a \"b\",\nc", outcome: .rejected(.malformedToken))
    listener.notAccepted(line: 5, token: "=1+1", outcome: .unknown)
    #expect(file.finish() == nil)
    #expect(
      try place.read("out.csv")
        == "line,token,outcome,reason\n3,ab,rejected,8 invalid token\n"
        + "4,\"a \"\"b\"\",\nc\",rejected,malformed token\n5,'=1+1,unknown,\n")
    let campaign = try OutcomesFile(path: place.path("all.csv"), columns: OutcomesColumns(namesSource: true))
    campaign.listener(app: "news", tokens: "t.csv").notAccepted(line: 1, token: "ab", outcome: .held)
    #expect(campaign.finish() == nil)
    #expect(try place.read("all.csv") == "line,token,outcome,reason,app,tokens\n1,ab,held,,news,t.csv\n")
    #expect(throws: CarillonError.self) {
      try OutcomesFile(path: place.path("no/such/out.csv"), columns: OutcomesColumns())
    }
  }

  @Test("a list has its header from the beginning, also if the process is killed before the first row")
  func outcomesHeader() throws {
    let place = try Workplace()
    let file = try OutcomesFile(path: place.path("out.csv"), columns: OutcomesColumns())
    #expect(try place.read("out.csv") == "line,token,outcome,reason\n")
    #expect(file.finish() == nil)
  }

  @Test("an outcomes file on a full disk is reported at the end")
  func outcomesOnFullDisk() throws {
    let file = try OutcomesFile(path: "/dev/full", columns: OutcomesColumns())
    #expect(file.finish()?.contains("is not complete: No space left on device") == true)
  }
}
