package enum FilePath {
  /// A path that stands in `file`: relative ones begin in the folder of that file.
  package static func resolve(_ path: String, besides file: String) -> String {
    guard !path.hasPrefix("/"), let slash = file.lastIndex(of: "/") else { return path }
    return String(file[...slash]) + path
  }
}
