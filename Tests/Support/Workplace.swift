package import Foundation

/// A folder for one test, which is removed afterwards.
package final class Workplace: Sendable {
  package let url: URL

  package init() throws {
    url = FileManager.default.temporaryDirectory.appending(path: "carillon-test-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
  }

  deinit { try? FileManager.default.removeItem(at: url) }

  package func path(_ name: String) -> String { url.appending(path: name).path(percentEncoded: false) }

  @discardableResult
  package func write(_ text: String, to name: String) throws -> String {
    try text.write(toFile: path(name), atomically: false, encoding: .utf8)
    return path(name)
  }

  /// As a file with a key must be: for its owner alone.
  package func writeSecret(_ text: String, to name: String) throws {
    try write(text, to: name)
    try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path(name))
  }

  package func read(_ name: String) throws -> String { try String(contentsOfFile: path(name), encoding: .utf8) }
}
