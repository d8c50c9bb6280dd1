internal import Carillon
internal import Foundation
package import PushEngine
internal import PushWire

/// What an earlier process has listed in an ``OutcomesFile``, as far as the journal stands by it.
///
/// A row is written, and durable, before the journal says that its notification is settled. So
/// after a crash no row is missing, but some may be void: those of notifications that are going to
/// be sent, or read, again. What a lost or older list lacks is for ``OutcomesRestoration``.
package struct OutcomesHistory {
  /// Rows with their line ends, in order.
  package private(set) var rows: [String] = []
  /// What they say, for each of the sources.
  private(set) var listed: [Listed]

  /// The rows of one campaign.
  struct Listed {
    var lines: Set<UInt64> = []
    var counts: [Outcome.Kind: Int] = [:]
    var gone: [GoneDevice] = []
  }

  /// A campaign that is resumed.
  package struct Source {
    var app: String
    var tokens: String
    /// Nil: it has ended, and all its rows are right.
    var settled: SettledLines?

    package init(app: String, tokens: String, settled: SettledLines?) {
      (self.app, self.tokens, self.settled) = (app, tokens, settled)
    }
  }

  /// - Parameters:
  ///   - columns: of the rows.
  ///   - sources: rows of other campaigns are right: these have ended before.
  package init(path: String, columns: OutcomesColumns, sources: [Source]) throws {
    // Foundation has many words for a file that is not there.
    let problem = unsafe access(path, R_OK) == 0 ? nil : unsafe String(cString: strerror(errno))
    guard problem == nil, let content = try? Data(contentsOf: URL(fileURLWithPath: path)) else {
      throw CarillonError(
        .list,
        "the list of outcomes \(path) cannot be read: \(problem ?? "it is not a file"); restore it, or put an empty "
          + "file in its place if its rows may be missing")
    }
    listed = sources.map { _ in Listed() }
    var isFirst = true
    for record in CSVText.records(content) {
      defer { isFirst = false }
      // A crash in the middle of a write leaves no line end.
      guard !isFirst, record.last == UInt8(ascii: "\n") else { continue }
      let fields = CSVText.fields(record.dropLast())
      guard fields.count == columns.names.count, let line = UInt64(fields[0]) else { continue }
      let (app, tokens) = (fields[fields.count - 2], fields[fields.count - 1])
      let index =
        columns.namesSource
        ? sources.firstIndex { OutcomesFile.isField(app, $0.app) && OutcomesFile.isField(tokens, $0.tokens) }
        : sources.indices.first
      guard let index else {
        rows.append(String(decoding: record, as: UTF8.self))
        continue
      }
      guard sources[index].settled?.contains(line) ?? true else { continue }
      rows.append(String(decoding: record, as: UTF8.self))
      listed[index].lines.insert(line)
      if let kind = Outcome.Kind(rawValue: fields[2]) { listed[index].counts[kind, default: 0] += 1 }
      if fields[3].hasPrefix("410 ") {
        listed[index].gone.append(GoneDevice(token: fields[1], since: columns.namesTime ? UInt64(fields[4]) : nil))
      }
    }
  }
}
