internal import PushService
internal import PushStore
internal import PushWire

/// Lines of devices as CSV: a header that names the columns, then a device on each line.
///
/// Tags are separated by spaces. An empty field says nothing of the device.
struct DeviceTable {
  private let columns: [String]

  /// - Throws: ``Problem``: no column is called `token`, or one is unknown.
  init(header: ArraySlice<UInt8>) throws {
    // Spreadsheets begin a file with a byte order mark.
    let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
    columns = try Self.fields(header.starts(with: mark) ? header.dropFirst(mark.count) : header)
    for column in columns where !DeviceRequest.lineFields.contains(column) {
      throw Problem.malformed(
        "There is no column \"\(column)\": a line of devices is a JSON object, or CSV below a header of "
          + DeviceRequest.lineFields.sorted().joined(separator: ", ") + ".")
    }
    guard columns.contains("token"), Set(columns).count == columns.count else {
      throw Problem.malformed("The header must name the column token, and no column twice.")
    }
  }

  func registration(line: ArraySlice<UInt8>, now: StoreInstant) throws -> DeviceRegistration {
    let fields = try Self.fields(line)
    guard fields.count == columns.count else {
      throw Problem.malformed("The line has \(fields.count) fields, the header has \(columns.count).")
    }
    var members: [JSONMember] = []
    for (column, field) in zip(columns, fields) where !field.isEmpty {
      let value: JSONValue =
        column == "tags" ? .array(field.split(separator: " ").map { .string(String($0)) }) : .string(field)
      members.append(JSONMember(column, value))
    }
    return try DeviceRequest.registration(line: members, now: now)
  }

  /// A field may be quoted, with each quotation mark in it doubled. None spans lines.
  static func fields(_ line: ArraySlice<UInt8>) throws -> [String] {
    var fields: [String] = []
    var rest = line
    while true {
      var field: [UInt8] = []
      if rest.first == UInt8(ascii: "\"") {
        rest.removeFirst()
        while true {
          guard let byte = rest.popFirst() else { throw Problem.malformed("A quoted field does not end.") }
          guard byte == UInt8(ascii: "\"") else {
            field.append(byte)
            continue
          }
          guard rest.first == UInt8(ascii: "\"") else { break }
          field.append(byte)
          rest.removeFirst()
        }
        guard rest.isEmpty || rest.first == UInt8(ascii: ",") else {
          throw Problem.malformed("A quoted field is followed by more than a comma.")
        }
      } else {
        let end = rest.firstIndex(of: UInt8(ascii: ",")) ?? rest.endIndex
        field = Array(rest[rest.startIndex..<end])
        rest = rest[end...]
      }
      guard let text = String(validating: field, as: UTF8.self) else {
        throw Problem.malformed("A field is not UTF-8.")
      }
      fields.append(text)
      guard rest.popFirst() != nil else { return fields }
    }
  }
}
