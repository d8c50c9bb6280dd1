internal import Foundation

/// What documents must keep: their length, the width of their lines, and links and names that lead
/// somewhere.
enum Documents {
  static let lineWidth = 100
  static let readmeLineLimit = 120
  static let architectureWordLimit = 1500

  static func findings(in tree: [SourceFile]) -> [Finding] {
    let index = Index(tree)
    var findings: [Finding] = []
    for file in tree {
      if file.path.hasSuffix(".md") {
        findings += tooWide(file) + tooLong(file)
        findings += deadLinks(file, index) + unknownNames(file, index)
      } else {
        findings += deadCitations(file, index)
      }
      if file.path.hasSuffix(".md") || file.isSwift && file.isSource { findings += untestedCode(file, index) }
    }
    return findings
  }

  /// What a document may name.
  struct Index {
    let paths: Set<String>
    let folders: Set<String>
    let fileNames: Set<String>
    /// Every word that begins with a capital letter in a Swift file or a script.
    let names: Set<Substring>
    /// The lines of each test that runs the documents' code.
    let testedCode: [[String]]

    init(_ tree: [SourceFile]) {
      paths = Set(tree.map(\.path))
      fileNames = Set(tree.map { String($0.path.split(separator: "/").last ?? "") })
      let tests = tree.filter { $0.path.hasPrefix("Tests/CarillonTests/Documented") }
      testedCode = tests.map { Documents.lines(of: $0).map { Documents.trimmed($0.text) } }
      var folders: Set<String> = []
      var names: Set<Substring> = []
      for file in tree {
        var parts = file.path.split(separator: "/").dropLast()
        while !parts.isEmpty {
          folders.insert(parts.joined(separator: "/"))
          parts.removeLast()
        }
        guard !file.path.hasSuffix(".md") else { continue }
        for word in file.text.split(whereSeparator: { !($0.isLetter || $0.isNumber || $0 == "_") })
        where word.first?.isUppercase == true { names.insert(word) }
      }
      self.folders = folders
      self.names = names
    }

    func hasPath(_ path: String) -> Bool { paths.contains(path) || folders.contains(path) }

    /// A file with or without its extension, a folder, a type, or a type with one of its members.
    func knows(_ name: Substring) -> Bool {
      if ["", "Sources/", "Tests/"].contains(where: { hasPath($0 + name) }) { return true }
      if fileNames.contains(String(name)) || fileNames.contains("\(name).swift") { return true }
      guard let first = name.split(whereSeparator: { "./".contains($0) }).first else { return false }
      return names.contains(first) && !folders.contains("Sources/\(first)")
    }
  }

  private static func tooWide(_ file: SourceFile) -> [Finding] {
    lines(of: file).filter { $0.text.count > lineWidth }.map {
      Finding(path: file.path, line: $0.number, message: "\($0.text.count) columns, at most \(lineWidth)")
    }
  }

  private static func tooLong(_ file: SourceFile) -> [Finding] {
    let lineCount = lines(of: file).count
    let wordCount = file.text.split(whereSeparator: \.isWhitespace).count
    switch file.path {
    case "README.md" where lineCount > readmeLineLimit:
      return [Finding(path: file.path, line: lineCount, message: "\(lineCount) lines, at most \(readmeLineLimit)")]
    case "ARCHITECTURE.md" where wordCount > architectureWordLimit:
      return [Finding(path: file.path, line: 1, message: "\(wordCount) words, at most \(architectureWordLimit)")]
    default: return []
    }
  }

  /// Links to files of the repository, and DocC's links to articles.
  private static func deadLinks(_ file: SourceFile, _ index: Index) -> [Finding] {
    let folder = file.path.split(separator: "/").dropLast()
    return lines(of: file).flatMap { line -> [Finding] in
      var findings: [Finding] = []
      for match in line.text.matches(of: #/\]\(([^)#]+)(?:#[^)]*)?\)/#) where !match.1.hasPrefix("http") {
        let path = (folder + match.1.split(separator: "/").filter { $0 != "." }).joined(separator: "/")
        if !index.hasPath(path) {
          let message = "a link to \(match.1), which is not there"
          findings.append(Finding(path: file.path, line: line.number, message: message))
        }
      }
      for match in line.text.matches(of: #/<doc:(\w+)>/#) where !index.fileNames.contains("\(match.1).md") {
        let message = "a link to the article \(match.1), which is not there"
        findings.append(Finding(path: file.path, line: line.number, message: message))
      }
      return findings
    }
  }

  /// Types and paths of the code, as `LaneMachine` and `PushWire/Machines`, in documents for
  /// developers.
  private static func unknownNames(_ file: SourceFile, _ index: Index) -> [Finding] {
    guard file.path == "ARCHITECTURE.md" || file.path.contains("/Developers/") else { return [] }
    return lines(of: file).flatMap { line -> [Finding] in
      line.text.matches(of: #/`([A-Za-z0-9_+./-]+)`/#).compactMap { match in
        let name = match.1
        let looksLikeType = name.first?.isUppercase == true && name.contains(where: \.isLowercase)
        guard name.contains("/") || looksLikeType && !name.contains("-"), !index.knows(name) else { return nil }
        return Finding(path: file.path, line: line.number, message: "`\(name)` is not in the code")
      }
    }
  }

  /// Swift code of a document, or of a symbol's documentation, that no test runs: the lines of each
  /// block stand in one test file, in the same order.
  private static func untestedCode(_ file: SourceFile, _ index: Index) -> [Finding] {
    guard file.text.mentions("```swift") else { return [] }
    var findings: [Finding] = []
    var block: [(number: Int, text: String)]?
    for line in lines(of: file) {
      var text = trimmed(line.text)
      if file.isSwift {
        guard text.hasPrefix("///") else { continue }
        text = trimmed(text.dropFirst(3))
      }
      if text == "```swift" {
        block = []
      } else if text == "```" {
        if let untested = untestedLine(block ?? [], index) {
          let message = "no test runs this line: \(untested.text)"
          findings.append(Finding(path: file.path, line: untested.number, message: message))
        }
        block = nil
      } else if !text.isEmpty, !text.hasPrefix("import ") {
        block?.append((line.number, text))
      }
    }
    return findings
  }

  /// The first line of a block that is missing in the test that has most of the block.
  private static func untestedLine(
    _ block: [(number: Int, text: String)], _ index: Index
  ) -> (number: Int, text: String)? {
    let found = index.testedCode.map { code in
      var place = code.startIndex
      return block.prefix { line in
        guard let match = code[place...].firstIndex(of: line.text) else { return false }
        place = match + 1
        return true
      }.count
    }
    let count = found.max() ?? 0
    return count < block.count ? block[count] : nil
  }

  fileprivate static func trimmed(_ line: Substring) -> String {
    String(line.drop { $0 == " " }.reversed().drop { $0 == " " }.reversed())
  }

  /// A comment that cites a document, in any file that is none.
  private static func deadCitations(_ file: SourceFile, _ index: Index) -> [Finding] {
    guard !file.path.hasPrefix("Tests/TidyTests/"), file.text.mentions(".md") else { return [] }
    return lines(of: file).flatMap { line in
      line.text.matches(of: #/([A-Za-z0-9_-]+\.md)\b/#).compactMap { match in
        guard !index.fileNames.contains(String(match.1)) else { return nil }
        let message = "cites \(match.1), which is not in the repository"
        return Finding(path: file.path, line: line.number, message: message)
      }
    }
  }

  fileprivate static func lines(of file: SourceFile) -> [(number: Int, text: Substring)] {
    var lines = file.text.split(separator: "\n", omittingEmptySubsequences: false)
    if lines.last?.isEmpty == true { lines.removeLast() }
    return lines.enumerated().map { (number: $0.offset + 1, text: $0.element) }
  }
}
