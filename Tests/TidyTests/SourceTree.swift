internal import Foundation

/// A text file of the repository, with its path from the top.
struct SourceFile {
  let path: String
  let text: String
  /// The text with comments and string literals replaced by spaces, line for line the same. Other
  /// files than Swift are unchanged.
  let code: String

  init(path: String, text: String) {
    self.path = path
    self.text = text
    code = path.hasSuffix(".swift") ? SwiftText.codeOnly(text) : text
  }

  /// The target of a file under Sources or Tests, which is the folder's name.
  var module: String? {
    let parts = path.split(separator: "/")
    guard parts.count >= 3, parts[0] == "Sources" || parts[0] == "Tests" else { return nil }
    return String(parts[1])
  }

  var isSwift: Bool { path.hasSuffix(".swift") }
  var isSource: Bool { path.hasPrefix("Sources/") }
}

extension StringProtocol {
  /// Whether the text contains `needle`. It saves regular expressions, which are slow in a debug
  /// build.
  func mentions(_ needle: String) -> Bool {
    unsafe withCString { text in unsafe needle.withCString { needle in unsafe strstr(text, needle) != nil } }
  }
}

/// A violation of a rule: its place and what to do instead.
struct Finding: CustomStringConvertible {
  let path: String
  let line: Int
  let message: String
  var description: String { "\(path):\(line): \(message)" }
}

enum SourceTree {
  /// The top of the repository, derived from this file's path at compile time.
  static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()

  private static let skippedFolders: Set<String> = [".build", ".git", ".swiftpm", "node_modules"]
  private static let skippedFiles: Set<String> = ["Package.resolved", ".git"]

  /// All text files of the repository in UTF-8, read once for all rules.
  static let files = readFiles()

  private static func readFiles() -> [SourceFile] {
    let rootPath = root.path(percentEncoded: false)
    guard let walk = FileManager.default.enumerator(atPath: rootPath) else { return [] }
    var files: [SourceFile] = []
    for case let path as String in walk {
      let name = path.split(separator: "/").last.map(String.init) ?? path
      let isFolder = walk.fileAttributes?[.type] as? FileAttributeType == .typeDirectory
      if isFolder {
        if skippedFolders.contains(name) { walk.skipDescendants() }
        continue
      }
      guard !skippedFiles.contains(name), let data = FileManager.default.contents(atPath: rootPath + path) else {
        continue
      }
      guard let text = String(data: data, encoding: .utf8) else { continue }
      files.append(SourceFile(path: path, text: text))
    }
    return files.sorted { $0.path < $1.path }
  }
}
