internal import Carillon
internal import Foundation
internal import PushEngine
internal import PushSend
internal import PushWire

/// The list of what was not accepted: CSV, a row durable before the journal calls it settled.
package enum ServedList {
  /// The same for every transport, so that the lists of a campaign's parts can follow each other.
  static let columns = OutcomesColumns(namesTime: true)

  /// The first line, without its end.
  package static var header: String { columns.names.joined(separator: ",") }

  /// One row, with its end.
  static func row(line: UInt64, token: String, outcome: Outcome.Kind, reason: String) -> String {
    "\(line),\(OutcomesFile.field(token)),\(outcome.rawValue),\(OutcomesFile.field(reason)),\n"
  }

  /// One row of any outcome, with its end.
  static func row(line: UInt64, token: String, outcome: Outcome, goneSince: UInt64?) -> String {
    OutcomesFile.row(
      line: line, token: token, outcome: outcome, goneSince: goneSince, namesTime: columns.namesTime) + "\n"
  }

  /// - Parameter settled: of a resumed campaign: rows of what is sent again are dropped. Nil: new.
  static func open(_ path: String, settled: SettledLines?) throws(CarillonError) -> OutcomesFile {
    try open(path, resuming: settled).file
  }

  /// - Returns: also the rows that are right.
  static func open(
    _ path: String, resuming settled: SettledLines?
  ) throws(CarillonError) -> (file: OutcomesFile, rows: [String]) {
    do {
      guard let settled, FileManager.default.fileExists(atPath: path) else {
        return (try OutcomesFile(path: path, columns: columns), [])
      }
      let history = try OutcomesHistory(
        path: path, columns: columns, sources: [OutcomesHistory.Source(app: "", tokens: "", settled: settled)])
      return (try OutcomesFile(replacing: path, columns: columns, rows: history.rows), history.rows)
    } catch {
      throw CarillonError(describing: error)
    }
  }
}
