internal import Foundation
internal import Support

/// The account that `carillon send --json` prints, and that the service answers with.
struct SentAccount: Decodable, Hashable {
  struct Accepted: Decodable, Hashable {
    let confirmed: Int
    let quiet: Int
  }
  struct Rejected: Decodable, Hashable {
    let total: Int
    let byReason: [String: Int]
  }
  struct App: Decodable, Hashable {
    let submitted: Int
    let accepted: Accepted
    let rejected: Rejected
    let suppressed: Int
    /// Absent in accounts of older versions, as is `holdout`.
    let capped: Int?
    let holdout: Int?
    let expired: Int
    let held: Int
    let cancelled: Int
    let unknown: Int
    let resent: Int
    let possibleDuplicates: Int
    let possibleCopies: Int
    let notes: [String]
    let neverRead: [NeverRead]

    var acceptedTotal: Int { accepted.confirmed + accepted.quiet }
    var sum: Int {
      acceptedTotal + rejected.total + suppressed + (capped ?? 0) + (holdout ?? 0) + expired + held + cancelled
        + unknown
    }
  }

  struct NeverRead: Decodable, Hashable {
    let tokens: String
    let fromLine: Int
    let bytes: Int?
    let ofBytes: Int?
  }

  let apps: [String: App]
  let seconds: Double
  let perSecond: Double

  /// Nil: the command printed none.
  init?(_ ending: Ending) {
    guard let line = ending.output.split(separator: "\n").first(where: { $0.hasPrefix("{\"apps\":") }) else {
      return nil
    }
    guard let account = try? JSONDecoder().decode(SentAccount.self, from: Data(line.utf8)) else { return nil }
    self = account
  }

  var possibleDuplicates: Int { apps.values.map(\.possibleDuplicates).reduce(0, +) }
}

/// One row of an `--outcomes` file.
struct OutcomeRow: Hashable {
  let line: Int
  let token: String
  let outcome: String
  let reason: String
  /// Only when several campaigns share the file.
  let app: String?
  let tokens: String?

  /// Nil when `text` is not in the documented form.
  static func parse(_ text: String) -> [OutcomeRow]? {
    var records = Self.records(text)
    guard let header = records.first else { return nil }
    let names = ["line", "token", "outcome", "reason"]
    guard header == names || header == names + ["app", "tokens"] else { return nil }
    records.removeFirst()
    var rows: [OutcomeRow] = []
    for record in records {
      guard record.count == header.count, let line = Int(record[0]) else { return nil }
      let source = record.count > 4
      rows.append(
        OutcomeRow(
          line: line, token: record[1], outcome: record[2], reason: record[3], app: source ? record[4] : nil,
          tokens: source ? record[5] : nil))
    }
    return rows
  }

  /// Splits CSV by RFC 4180.
  private static func records(_ text: String) -> [[String]] {
    var records: [[String]] = []
    var record: [String] = []
    var field: [UInt8] = []
    var isQuoted = false
    func endField() {
      record.append(String(decoding: field, as: UTF8.self))
      field = []
    }
    let bytes = Array(text.utf8)
    var index = 0
    while index < bytes.count {
      let byte = bytes[index]
      switch byte {
      case UInt8(ascii: "\"") where isQuoted && index + 1 < bytes.count && bytes[index + 1] == byte:
        field.append(byte)
        index += 1
      case UInt8(ascii: "\""): isQuoted.toggle()
      case UInt8(ascii: ",") where !isQuoted: endField()
      case UInt8(ascii: "\n") where !isQuoted:
        endField()
        records.append(record)
        record = []
      default: field.append(byte)
      }
      index += 1
    }
    if !field.isEmpty || !record.isEmpty {
      endField()
      records.append(record)
    }
    return records
  }
}
