internal import Foundation
internal import PushEngine
internal import PushWire
internal import Testing

@testable internal import carillon

/// The list of outcomes of a campaign that is gone on with.
struct OutcomesListTests {
  private let place: Workplace
  private let rows = (1...20).map { "\($0),ab,held,\n" }
  private var expected: String { "line,token,outcome,reason\n" + rows.joined() }

  init() throws {
    place = try Workplace()
    try place.write("line,token,outcome,reason\n" + rows.joined() + "21,ab,cancelled,\n", to: "out.csv")
  }

  @Test("what the list held is there again before anything else is written, whoever is killed meanwhile")
  func replacedAtOnce() throws {
    let file = try OutcomesFile(replacing: place.path("out.csv"), columns: OutcomesColumns(), rows: rows)
    #expect(try place.read("out.csv") == expected)
    file.listener(app: "news", tokens: "t.csv").notAccepted(line: 22, token: "cd", outcome: .held)
    #expect(file.finish() == nil)
    #expect(try place.read("out.csv") == expected + "22,cd,held,\n")
    #expect(try FileManager.default.contentsOfDirectory(atPath: place.url.path) == ["out.csv"])
  }

  @Test("a list that cannot be replaced stays as it is")
  func failing() throws {
    let before = try place.read("out.csv")
    try FileManager.default.createDirectory(atPath: place.path("out.csv.new"), withIntermediateDirectories: false)
    #expect(throws: CommandFailure.self) { try OutcomesFile(replacing: place.path("out.csv"), columns: OutcomesColumns(), rows: rows) }
    #expect(try place.read("out.csv") == before)
  }

  @Test("a link to the list stays a link, and the list keeps its permissions")
  func link() throws {
    try FileManager.default.setAttributes([.posixPermissions: 0o640], ofItemAtPath: place.path("out.csv"))
    try FileManager.default.createSymbolicLink(atPath: place.path("link.csv"), withDestinationPath: "out.csv")
    _ = try OutcomesFile(replacing: place.path("link.csv"), columns: OutcomesColumns(), rows: rows)
    #expect(try FileManager.default.destinationOfSymbolicLink(atPath: place.path("link.csv")) == "out.csv")
    #expect(try place.read("out.csv") == expected)
    #expect(try FileManager.default.attributesOfItem(atPath: place.path("out.csv"))[.posixPermissions] as? Int == 0o640)
  }

  @Test("a list that is no file at all is simply written to")
  func noFile() throws {
    #expect(try OutcomesFile(replacing: "/dev/null", columns: OutcomesColumns(), rows: rows).finish() == nil)
    #expect(throws: CommandFailure.self) { try OutcomesFile(replacing: "/dev/full", columns: OutcomesColumns(), rows: rows) }
  }
}
