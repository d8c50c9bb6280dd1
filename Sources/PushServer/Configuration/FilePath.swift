package enum FilePath {
  /// Resolves a path written in `file`. Relative paths start at that file's folder.
  package static func resolve(_ path: String, besides file: String) -> String {
    guard !path.hasPrefix("/"), let slash = file.lastIndex(of: "/") else { return path }
    return String(file[...slash]) + path
  }
}
