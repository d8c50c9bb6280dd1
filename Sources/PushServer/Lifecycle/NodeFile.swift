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
  private let path: String
  private let isNew: Bool

  private static let name = "node"

  /// Reads the file. Without one the journal gets a name, which ``keep()`` writes.
  ///
  /// - Parameter host: under whose name older versions wrote the outcomes of the journal.
  init(folder: String, host: String) {
    path = "\(folder)/\(Self.name)"
    let words = ((try? String(contentsOfFile: path, encoding: .utf8)) ?? "").split(whereSeparator: \.isWhitespace)
    incarnation = words.first.flatMap { Int64($0) }.flatMap { $0 > 0 ? $0 : nil }
    isNew = words.count != 2
    guard isNew else {
      journal = String(words[1])
      return
    }
    let files = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
    journal = files.contains { $0.hasPrefix("segment") } ? host : UUID().uuidString.lowercased()
  }

  /// Writes the name, once. Call it when the journal is open: a folder that is none stays as
  /// it is.
  func keep() throws(CarillonError) { if isNew { try write(incarnation ?? 0) } }

  /// Notes which process has the journal. Otherwise the next one waits until this one is silent.
  func write(_ incarnation: Int64) throws(CarillonError) {
    do {
      try Data("\(incarnation) \(journal)\n".utf8).write(to: URL(fileURLWithPath: path), options: .atomic)
    } catch { throw CarillonError(.journal, "\(path) cannot be written: \(error.localizedDescription).") }
  }
}
