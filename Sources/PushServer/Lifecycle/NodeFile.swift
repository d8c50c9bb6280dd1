internal import Carillon
internal import Foundation
internal import PushService
internal import PushStore

/// What a journal knows of itself among those that share a store: the file `node` in its folder.
///
/// Outcomes in the store are counted by journal, not by machine: two journals may be on one
/// machine, and a container gets another name whenever it starts.
struct NodeFile {
  /// Names the journal.
  let journal: String
  /// Of the last process that had the journal; nil: none has joined.
  let incarnation: Int64?
  /// An older version has used the journal, and wrote outcomes under the name of the machine.
  let isOlder: Bool
  private let path: String

  private static let name = "node"

  /// Reads the file, or makes it.
  ///
  /// - Throws: ``CarillonError``.
  init(folder: String) throws(CarillonError) {
    path = "\(folder)/\(Self.name)"
    let words = ((try? String(contentsOfFile: path, encoding: .utf8)) ?? "").split(whereSeparator: \.isWhitespace)
    incarnation = words.first.flatMap { Int64($0) }.flatMap { $0 > 0 ? $0 : nil }
    if words.count == 2 {
      (journal, isOlder) = (String(words[1]), false)
      return
    }
    let files = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
    isOlder = files.contains { $0.hasPrefix("segment") }
    journal = UUID().uuidString.lowercased()
    do {
      try FileManager.default.createDirectory(
        atPath: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    } catch { throw Self.problem(path, error) }
    try write(incarnation ?? 0)
  }

  /// Notes which process has the journal. Otherwise the next one waits until this one is silent.
  func write(_ incarnation: Int64) throws(CarillonError) {
    do {
      try Data("\(incarnation) \(journal)\n".utf8).write(to: URL(fileURLWithPath: path), options: .atomic)
    } catch { throw Self.problem(path, error) }
  }

  private static func problem(_ path: String, _ error: any Error) -> CarillonError {
    CarillonError(.journal, "\(path) cannot be written: \(error.localizedDescription).")
  }
}
