internal import Testing

/// Checks the rules of ARCHITECTURE.md and Contributing.md.
struct TidyTests {
  private func expectNone(_ findings: [Finding], sourceLocation: SourceLocation = #_sourceLocation) {
    for finding in findings { Issue.record("\(finding)", sourceLocation: sourceLocation) }
  }

  private func sources() throws -> [SourceFile] {
    let files = SourceTree.files
    try #require(
      files.contains { $0.path == "Package.swift" },
      "the checker does not find the repository's files")
    try #require(files.filter { $0.isSwift && $0.isSource }.count > 5)
    return files
  }

  @Test("modules import only what the arrows of ARCHITECTURE.md allow, and every import has an access level")
  func arrows() throws {
    try expectNone(sources().flatMap(Arrows.findings))
  }

  @Test("no source makes a banned call", arguments: Rules.banned)
  func bannedCalls(rule: Rule) throws {
    try expectNone(sources().flatMap(rule.findings))
  }

  @Test("every @unchecked Sendable has a Sync comment")
  func uncheckedSendable() throws {
    try expectNone(sources().flatMap(Rules.unexplainedSendable))
  }

  @Test("every expectation checks one condition")
  func joinedConditions() throws {
    try expectNone(sources().flatMap(Rules.joinedConditions))
  }

  @Test("no two top-level types of the package share a name")
  func typeNames() throws {
    try expectNone(Rules.sharedTypeNames(sources()))
  }

  @Test("no file is longer than 500 lines")
  func fileLength() throws {
    try expectNone(sources().flatMap(Rules.tooLong))
  }

  @Test("no comment is wider than 100 columns")
  func commentWidth() throws {
    try expectNone(sources().flatMap(Rules.wideComments))
  }

  @Test("no certificate or key is in the repository")
  func keyMaterial() throws {
    try expectNone(sources().flatMap(Rules.keyMaterial))
  }

  @Test("no file names a path of one machine")
  func machinePaths() throws {
    try expectNone(sources().flatMap(Rules.machinePath.findings))
  }

  @Test("the arrows of each module are its dependencies in Package.swift, and the toolchain's Foundation and Dispatch")
  func manifest() throws {
    let manifest = try #require(try sources().first { $0.path == "Package.swift" }).text
    let target = #/\.(?:target|executableTarget)\(\s*name: "(\w+)",(?:\s*dependencies: \[([^\]]*)\])?/#
    var names: Set<String> = []
    for match in manifest.matches(of: target) where match.1 != "Support" {
      let name = String(match.1)
      names.insert(name)
      let arrows = try #require(Arrows.allowed[name], "the target \(name) is not in Arrows.swift")
      // A product is named after its module: .product(name: "Yams", package: "Yams").
      let list = String(match.2 ?? "").replacing(#/package: "[^"]*"/#, with: "")
      var dependencies = Set(list.matches(of: #/"(\w+)"/#).map { String($0.1) })
      if list.mentions("nioCore") { dependencies.insert("NIOCore") }
      if list.mentions("nioPosix") { dependencies.insert("NIOPosix") }
      #expect(arrows.subtracting(["Foundation", "Dispatch"]) == dependencies, "\(name)")
    }
    #expect(Set(Arrows.allowed.keys) == names)
  }

  @Test("the benchmarks build the product's modules with its settings and dependencies")
  func benchmarksManifest() throws {
    let files = try sources()
    func text(of path: String) throws -> String { try #require(files.first { $0.path == path }).text }
    func lines(_ manifest: String) -> [Substring] {
      manifest.split(separator: "\n").map { $0.trimmingPrefix(while: \.isWhitespace) }
    }
    let (product, benchmarks) = (try text(of: "Package.swift"), try text(of: "Benchmarks/Package.swift"))
    let setting = /\.(?:swiftLanguageMode|strictMemorySafety|treatAllWarnings|enable\w+|define|unsafeFlags)\(/
    func settings(_ manifest: String) -> [Substring] { lines(manifest).filter { $0.prefixMatch(of: setting) != nil } }
    #expect(settings(benchmarks) == settings(product))
    // The C libraries, and the version of NIO.
    let shared = #/\.systemLibrary\(|\.package\(url: ".*/swift-nio"|let nio(?:Core|Posix)\b/#
    let sharedLines = lines(benchmarks).filter { $0.prefixMatch(of: shared) != nil }
    #expect(sharedLines.count >= 5)
    let productLines = lines(product)
    for line in sharedLines {
      #expect(productLines.contains(line), "Benchmarks/Package.swift differs from Package.swift: \(line)")
    }
    // The modules, wherever their lines are broken.
    func targets(_ manifest: String) -> [String: String] {
      let matches = manifest.matches(of: /\.target\(\s*name: "(Push\w+)"[^)]*\)/)
      return Dictionary(matches.map { (String($0.1), $0.0.filter { !$0.isWhitespace }) }) { first, _ in first }
    }
    let productTargets = targets(product)
    #expect(targets(benchmarks).count == 4)
    for (name, target) in targets(benchmarks) { #expect(productTargets[name] == target) }
  }
}

extension Rule: CustomTestStringConvertible {
  var testDescription: String { name }
}
