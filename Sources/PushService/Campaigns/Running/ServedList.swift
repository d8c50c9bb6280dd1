internal import Carillon
internal import Foundation
internal import PushEngine
internal import PushSend
internal import PushWire

/// The list of what was not accepted of a service's campaign: CSV, a row durable before the journal
/// calls its notification settled.
package struct ServedList: Sendable {
  let file: OutcomesFile

  /// The same for every transport, so that the lists of a campaign's parts can follow each other.
  static let columns = OutcomesColumns(namesTime: true)

  /// The first line, without its end.
  package static var header: String { columns.names.joined(separator: ",") }

  /// One row, with its end.
  static func row(line: UInt64, token: String, outcome: Outcome.Kind, reason: String) -> String {
    "\(line),\(OutcomesFile.field(token)),\(outcome.rawValue),\(OutcomesFile.field(reason)),\n"
  }

  private init(file: OutcomesFile) { self.file = file }

  /// - Parameter settled: of a campaign that is resumed: rows about what is sent again are dropped.
  ///   Nil: it begins.
  init(path: String, settled: SettledLines?) throws(CarillonError) {
    do {
      guard let settled, FileManager.default.fileExists(atPath: path) else {
        self.init(file: try OutcomesFile(path: path, columns: Self.columns))
        return
      }
      let history = try OutcomesHistory(
        path: path, columns: Self.columns, sources: [OutcomesHistory.Source(app: "", tokens: "", settled: settled)])
      self.init(file: try OutcomesFile(replacing: path, columns: Self.columns, rows: history.rows))
    } catch {
      throw CarillonError(describing: error)
    }
  }

  var listener: any OutcomeListener { file.listener(app: "", tokens: "") }

  /// Makes durable what was written since the last call.
  func sync() throws(UnsyncedList) { try file.sync() }

  /// Writes what waits in memory.
  func flush() { _ = file.finish() }
}
