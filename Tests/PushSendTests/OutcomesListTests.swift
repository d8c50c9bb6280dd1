internal import Carillon
internal import Foundation
internal import PushEngine
internal import PushWire
internal import Support
internal import Testing

@testable internal import PushSend

/// The list of outcomes of a resumed campaign.
struct OutcomesListTests {
  private let place: Workplace
  private let rows = (1...20).map { "\($0),ab,held,\n" }
  private var expected: String { "line,token,outcome,reason\n" + rows.joined() }

  init() throws {
    place = try Workplace()
    try place.write("line,token,outcome,reason\n" + rows.joined() + "21,ab,cancelled,\n", to: "out.csv")
  }

  @Test("a resumed list has its old rows before anything else is written, also after a kill")
  func replacedAtOnce() throws {
    let file = try OutcomesFile(replacing: place.path("out.csv"), columns: OutcomesColumns(), rows: rows)
    #expect(try place.read("out.csv") == expected)
    file.listener(app: "news", tokens: "t.csv").notAccepted(line: 22, token: "cd", outcome: .held)
    #expect(file.finish() == nil)
    #expect(try place.read("out.csv") == expected + "22,cd,held,\n")
    #expect(try FileManager.default.contentsOfDirectory(atPath: place.url.path) == ["out.csv"])
  }

  @Test("a list that cannot be replaced is not changed")
  func failing() throws {
    let before = try place.read("out.csv")
    // No room for the random part of the new file's name.
    let name = String(repeating: "x", count: 250)
    try place.write(before, to: name)
    #expect(throws: CarillonError.self) {
      try OutcomesFile(replacing: place.path(name), columns: OutcomesColumns(), rows: rows)
    }
    #expect(try place.read(name) == before)
  }

  @Test("a planted link with the new list's name is neither followed nor changed")
  func plantedLink() throws {
    try place.write("secret", to: "victim")
    try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: place.path("victim"))
    try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: place.path("out.csv"))
    try FileManager.default.createSymbolicLink(atPath: place.path("out.csv.new"), withDestinationPath: "victim")
    _ = try OutcomesFile(replacing: place.path("out.csv"), columns: OutcomesColumns(), rows: rows)
    #expect(try place.read("out.csv") == expected)
    #expect(try place.read("victim") == "secret")
    #expect(try permissions("victim") == 0o600)
    #expect(try FileManager.default.destinationOfSymbolicLink(atPath: place.path("out.csv.new")) == "victim")
  }

  @Test("lists and feedback files are readable by this user only")
  func permissions() throws {
    _ = try OutcomesFile(path: place.path("new.csv"), columns: OutcomesColumns())
    _ = try GoneFile(path: place.path("gone.csv"))
    _ = try FeedbackFile(path: place.path("feedback.csv"), json: false)
    for name in ["new.csv", "gone.csv", "feedback.csv"] { #expect(try permissions(name) == 0o600, "\(name)") }
  }

  private func permissions(_ name: String) throws -> Int? {
    try FileManager.default.attributesOfItem(atPath: place.path(name))[.posixPermissions] as? Int
  }

  @Test(
    "a link of another user is not followed, and the error says what to do",
    .enabled(if: getuid() == 0, "only root can make such a link"))
  func foreignLink() throws {
    try place.write("secret", to: "victim")
    try FileManager.default.createSymbolicLink(atPath: place.path("theirs.csv"), withDestinationPath: "victim")
    #expect(unsafe lchown(place.path("theirs.csv"), 1, 1) == 0)
    let failure = #expect(throws: CarillonError.self) {
      try OutcomesFile(path: place.path("theirs.csv"), columns: OutcomesColumns())
    }
    #expect(
      failure?.message.contains(
        "theirs.csv is a symbolic link that belongs to another user; name a file that is no link") == true)
    #expect(throws: CarillonError.self) {
      try OutcomesFile(replacing: place.path("theirs.csv"), columns: OutcomesColumns(), rows: rows)
    }
    #expect(throws: CarillonError.self) { try GoneFile(path: place.path("theirs.csv")) }
    #expect(try place.read("victim") == "secret")
  }

  @Test("links of this user are followed, also in a chain, and so are those of open descriptors")
  func ownLinks() throws {
    try FileManager.default.createSymbolicLink(atPath: place.path("one"), withDestinationPath: "two")
    try FileManager.default.createSymbolicLink(atPath: place.path("two"), withDestinationPath: place.path("target.csv"))
    #expect(try OutcomesFile(path: place.path("one"), columns: OutcomesColumns()).finish() == nil)
    #expect(try place.read("target.csv") == "line,token,outcome,reason\n")
    try FileManager.default.createSymbolicLink(atPath: place.path("loop"), withDestinationPath: "loop")
    #expect(throws: CarillonError.self) { try OutcomesFile(path: place.path("loop"), columns: OutcomesColumns()) }
    let opened = unsafe open(place.path("open.csv"), O_WRONLY | O_CREAT, 0o600)
    defer { close(opened) }
    #expect(try OutcomesFile(path: "/dev/fd/\(opened)", columns: OutcomesColumns()).finish() == nil)
    #expect(try place.read("open.csv") == "line,token,outcome,reason\n")
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

  @Test("a list that is not a regular file is written to directly")
  func noFile() throws {
    #expect(try OutcomesFile(replacing: "/dev/null", columns: OutcomesColumns(), rows: rows).finish() == nil)
    #expect(throws: CarillonError.self) {
      try OutcomesFile(replacing: "/dev/full", columns: OutcomesColumns(), rows: rows)
    }
  }

  @Test("missing gone devices are appended again from the list of outcomes; those without a known token are counted")
  func gone() throws {
    try FileManager.default.createDirectory(atPath: place.path("journal"), withIntermediateDirectories: false)
    try place.write("timestamp,token\n1700000000,aa\n", to: "gone.csv")
    let listed = [
      GoneDevice(token: "aa", since: 1_700_000_000), GoneDevice(token: "bb", since: 1_700_000_001),
      GoneDevice(token: "cc"),
    ]
    func restore(expected: Int) throws -> String? {
      var account = Account()
      account.rejected = [
        .provider(ProviderRefusal(status: 410, reason: nil)): expected,
        .provider(ProviderRefusal(status: 400, reason: nil)): 7,
      ]
      let source = OutcomesRestoration.Source(app: "news", tokens: "t.csv", number: 1, account: account, readLine: 100)
      return try GoneFile(path: place.path("gone.csv")).restore(
        [source], listed: listed, begunAt: 1_600_000_000, directory: place.path("journal"))
    }
    let whole = "timestamp,token\n1700000000,aa\n1700000001,bb\n1600000000,cc\n"
    #expect(
      try restore(expected: 3)?.hasSuffix(
        "gone.csv lacked 2 of the devices that the service has called gone; 2 are written again") == true)
    #expect(try place.read("gone.csv") == whole)
    #expect(try restore(expected: 3) == nil)
    #expect(try restore(expected: 0) == nil)
    let lost =
      "lacked 1 of the devices that the service has called gone; "
      + "1 cannot be, as the journal no longer holds their tokens"
    #expect(try restore(expected: 4)?.hasSuffix(lost) == true)
    #expect(try place.read("gone.csv") == whole)
  }
}
