internal import Testing

/// The documents' rules, and that their checker finds what it must.
struct DocumentTests {
  @Test("documents keep their length and width, and everything that they name is there")
  func documents() throws {
    let files = SourceTree.files
    try #require(files.contains { $0.path == "README.md" })
    for finding in Documents.findings(in: files) { Issue.record("\(finding)") }
  }

  /// A tree of two files, of which the second breaks one rule.
  struct Planted: Sendable, CustomTestStringConvertible {
    let path: String
    let text: String
    let expected: String
    var testDescription: String { expected }
  }

  static let planted = [
    Planted(path: "A.md", text: String(repeating: "a", count: 101), expected: "101 columns"),
    Planted(path: "README.md", text: String(repeating: "\n", count: 121), expected: "121 lines"),
    Planted(path: "ARCHITECTURE.md", text: String(repeating: "a\n", count: 1501), expected: "1501 words"),
    Planted(path: "README.md", text: "[there](docs/A.md)", expected: "a link to docs/A.md"),
    Planted(path: "A.md", text: "See <doc:Nowhere>.", expected: "the article Nowhere"),
    Planted(path: "ARCHITECTURE.md", text: "`LaneMachin` decides", expected: "`LaneMachin` is not in the code"),
    Planted(path: "ARCHITECTURE.md", text: "in `PushWire/Machine`", expected: "`PushWire/Machine` is not in the code"),
    Planted(path: "Sources/A/A.swift", text: "// See design.md.", expected: "cites design.md"),
    Planted(path: "README.md", text: "```swift\nlet a = 1\n```", expected: "no test runs this line: let a = 1"),
    Planted(
      path: "Sources/A/A.swift", text: "  /// ```swift\n  /// let b = 1\n  /// ```",
      expected: "no test runs this line: let b = 1"),
  ]

  @Test("the checker finds a planted mistake", arguments: planted)
  func findsPlanted(planted: Planted) {
    let code = SourceFile(path: "Sources/PushWire/Machines/LaneMachine.swift", text: "struct LaneMachine {}")
    let findings = Documents.findings(in: [code, SourceFile(path: planted.path, text: planted.text)])
    #expect(findings.contains { $0.message.contains(planted.expected) }, "found \(findings)")
  }

  @Test("the checker accepts names, paths and links that lead somewhere")
  func leavesGoodDocuments() {
    let code = SourceFile(
      path: "Sources/PushWire/Machines/LaneMachine.swift", text: "/// See A.md.\nstruct LaneMachine {}")
    let text = "`LaneMachine` in `PushWire/Machines`, `LaneMachine/next`, [A](docs/A.md#b), <doc:A>, `a.b`"
    let documents = [SourceFile(path: "ARCHITECTURE.md", text: text), SourceFile(path: "docs/A.md", text: "")]
    let findings = Documents.findings(in: [code] + documents)
    #expect(findings.isEmpty, "\(findings)")
  }
}
