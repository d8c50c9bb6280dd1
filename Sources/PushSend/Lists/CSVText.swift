internal import Carillon
package import Foundation

/// Reads what ``OutcomesFile`` writes (RFC 4180).
package enum CSVText {
  /// The records with their line ends. A line end inside quotes is part of a field.
  package static func records(_ content: Data) -> [Data.SubSequence] {
    var records: [Data.SubSequence] = []
    var start = content.startIndex
    var isQuoted = false
    for index in content.indices {
      switch content[index] {
      case UInt8(ascii: "\""): isQuoted.toggle()
      case UInt8(ascii: "\n") where !isQuoted:
        records.append(content[start...index])
        start = index + 1
      default: break
      }
    }
    if start < content.endIndex { records.append(content[start...]) }
    return records
  }

  /// The fields of a record, without its line end.
  package static func fields(_ record: Data.SubSequence) -> [String] {
    var fields: [String] = []
    var field: [UInt8] = []
    var isQuoted = false
    var wasQuote = false
    for byte in record {
      switch byte {
      case UInt8(ascii: "\""):
        // The second of two is part of the text.
        if isQuoted || !wasQuote {
          isQuoted.toggle()
        } else {
          field.append(byte)
          isQuoted = true
        }
        wasQuote = !isQuoted
        continue
      case UInt8(ascii: ",") where !isQuoted:
        fields.append(String(decoding: field, as: UTF8.self))
        field = []
      default: field.append(byte)
      }
      wasQuote = false
    }
    fields.append(String(decoding: field, as: UTF8.self))
    return fields
  }
}
