internal import Carillon
internal import Foundation
internal import PushServer
internal import Testing

/// A file that is wrong by mistake or on purpose must not exhaust the machine.
@Suite(.timeLimit(.minutes(20)))
struct YAMLBoundsTests {
  private func complaint(_ text: String) -> String? {
    do {
      _ = try YAMLNode.parse(text, file: "c.yaml")
      return nil
    } catch { return error.description }
  }

  private func elements(_ text: String) throws -> [String] {
    try YAMLNode.parse(text, file: "c.yaml").list().map { try $0.text() }
  }

  /// `levels` lists; each repeats the one before it ten times.
  private static func nestedAliases(levels: Int, use: String) -> String {
    var text = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
    for level in 1...levels {
      text += "a\(level): &a\(level) [" + Array(repeating: "*a\(level - 1)", count: 10).joined(separator: ",") + "]\n"
    }
    return text + use.replacing("LAST", with: "a\(levels)") + "\n"
  }

  @Test(
    "nested aliases count expanded, and are refused before they are followed, as values and as keys",
    arguments: ["z: *LAST", "? *LAST\n: 1", "z: {? *LAST : 1, ? [*LAST] : 2}", "z: '*'\n? *LAST\n: \"~\""])
  func nestedAliases(use: String) {
    let text = Self.nestedAliases(levels: 9, use: use)
    #expect(text.utf8.count < 600)
    let said = complaint(text)
    #expect(
      said == "c.yaml:6: holds more than 200000 values, with aliases expanded; split the file",
      "\(said ?? "accepted")")
  }

  @Test(
    "aliases within the limit are replaced by the last anchor of their name; other asterisks are text")
  func aliases() throws {
    let text =
      "a: &a one\nb: *a\nc: &a two\nd: *a\ne: \"*a\"\nf: x*y *a\ng: |\n  *a\n# *a &b\nh: '~a'\ni: ~a\nj: [ *a, '*' ]\n"
    guard case .map(let entries) = try YAMLNode.parse(text, file: "c.yaml").content else {
      Issue.record("not a map")
      return
    }
    let texts = try entries.filter { $0.key != "j" }.map { "\($0.key)=\(try $0.value.text())" }
    #expect(texts == ["a=one", "b=one", "c=two", "d=two", "e=*a", "f=x*y *a", "g=*a\n", "h=~a", "i=~a"])
    #expect(try entries.last?.value.list().map { try $0.text() } == ["two", "*"])
    #expect(complaint("a: *nobody")?.contains("c.yaml:1: not valid YAML: found undefined alias") == true)
  }

  @Test("a credential can be written once and used by all apps")
  func sharedCredential() throws {
    let text = "apps:\n- { id: a, credential: &all { p12: a.p12 } }\n- { id: b, credential: *all }\n"
    let apps = try DeploymentConfiguration.parse(text, file: "c.yaml").apps
    #expect(apps.count == 2)
    #expect(apps[0].credential == apps[1].credential)
  }

  @Test(
    "lists and maps of more values than any configuration has are refused, in every notation",
    arguments: [
      "- a\n", "a,", "-\n", "? a\n", "x: {",
    ])
  func manyValues(piece: String) {
    let count = 1_200_000
    let repeated = String(repeating: piece, count: count)
    let said = complaint(piece == "a," ? "[\(repeated)]" : repeated)
    #expect(said?.contains("holds more than 200000 values") == true, "\(said ?? "accepted")")
  }

  @Test("as many values as the limit allows are read, one more is not")
  func exactBound() throws {
    // The list itself is a value too.
    #expect(try elements("[" + String(repeating: "a,", count: 199_999) + "]").count == 199_999)
    #expect(complaint("[" + String(repeating: "a,", count: 200_000) + "]")?.contains("more than 200000 values") == true)
    #expect(
      complaint("- [" + String(repeating: "a,", count: 100_000) + "]\n- [" + String(repeating: "*a,", count: 3) + "]")?
        .contains("alias") == true)
  }

  @Test("nesting is limited, by brackets, by dashes and by aliases of aliases", arguments: [33, 500, 100_000])
  func depth(levels: Int) {
    let chain = "a0: &a0 x\n" + (1...levels).map { "a\($0): &a\($0) [*a\($0 - 1)]\n" }.joined()
    for text in [
      String(repeating: "[", count: levels) + String(repeating: "]", count: levels),
      String(repeating: "- ", count: levels) + "a", chain,
    ] {
      let said = complaint(text)
      #expect(
        said?.contains("is nested deeper than 32 levels") == true
          || said?.contains("Maximum nesting level reached") == true, "\(said ?? "accepted")")
    }
    // A list or map as a key is refused in any case.
    #expect(complaint(String(repeating: "? ", count: levels) + "a") != nil)
    let deepest = String(repeating: "[", count: 32) + "a" + String(repeating: "]", count: 32)
    #expect(complaint(deepest) == nil)
    #expect(complaint("# *\n" + deepest) == nil)
  }

  @Test(
    "a long key, many directives and control characters are refused with a short sentence without control characters")
  func otherBounds() throws {
    let long = complaint("? " + String(repeating: "k", count: 100_000) + "\n: 1")
    #expect(
      long == "c.yaml:1: a key is longer than 256 bytes: \"" + String(repeating: "k", count: 64) + "…\"",
      "\(long ?? "accepted")")
    #expect(
      complaint(String(repeating: "%TAG ! b\n", count: 100_000) + "--- a")?.contains(
        "has more than 16 lines that begin with \"%\"") == true)
    #expect(complaint("a: \u{1}")?.contains("not valid YAML") == true)
    let node = try YAMLNode.parse("a: \"\\e[2J" + String(repeating: "x", count: 1_000_000) + "\"", file: "c.yaml")
    var reader = try YAMLReader(node)
    let taken = reader.take("a")
    let value = try #require(taken)
    let said = #expect(throws: ConfigurationError.self) { try value.integer(in: 1...2) }?.description
    #expect(
      said == "c.yaml:1: a must be a whole number from 1 to 2, not \"\\u{1b}[2J" + String(repeating: "x", count: 60)
        + "…\"", "\(said ?? "")")
    #expect(ConfigurationError(file: "a\u{1B}b", line: 1, problem: "p").description == "a\\u{1b}b:1: p")
  }

  @Test("a file above 4 MiB is not read to its end")
  func size() throws {
    let path = NSTemporaryDirectory() + "carillon-yaml-\(UUID().uuidString).yaml"
    defer { try? FileManager.default.removeItem(atPath: path) }
    try Data(("# " + String(repeating: "x", count: 4 << 20)).utf8).write(to: URL(filePath: path))
    let problem = "is larger than 4MiB, so it is not the file that is meant"
    #expect(throws: ConfigurationError(file: path, problem: problem)) { try YAMLNode.read(file: path) }
    #expect(throws: ConfigurationError(file: "/dev/zero", problem: problem)) { try YAMLNode.read(file: "/dev/zero") }
  }
}
