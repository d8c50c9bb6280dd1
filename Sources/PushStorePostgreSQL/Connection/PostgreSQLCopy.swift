internal import CPostgreSQL
internal import Glibc
internal import PushStore

/// Rows in COPY's binary form (PostgreSQL, "COPY", Binary Format): each column has exactly the type
/// of the table's.
struct PostgreSQLCopy: Sendable {
  /// Such as `devices (id, token)`.
  let table: String
  private let columnCount: Int16
  private(set) var rowCount = 0
  fileprivate private(set) var bytes: [UInt8]

  private static let signature: [UInt8] = Array("PGCOPY\n".utf8) + [0xff, 0x0d, 0x0a, 0]

  init(_ table: String, columns: [String]) {
    self.table = "\(table) (\(columns.joined(separator: ", ")))"
    columnCount = Int16(columns.count)
    bytes = Self.signature
    // Neither flags nor an extension of the header.
    add(Int32(0))
    add(Int32(0))
  }

  var byteCount: Int { bytes.count }

  /// The next fields are those of a new row.
  mutating func addRow() {
    add(columnCount)
    rowCount += 1
  }

  private mutating func add(_ number: some FixedWidthInteger) { bytes.append(bigEndian: number) }

  mutating func addNull() { add(Int32(-1)) }

  /// A field of any type, as its binary form.
  mutating func add(bytes field: some Collection<UInt8>) {
    add(Int32(field.count))
    bytes.append(contentsOf: field)
  }

  mutating func add(text: String) { add(bytes: text.utf8) }

  /// `smallint` to `bigint`, by the type of the number.
  mutating func add(integer number: (some FixedWidthInteger)?) {
    guard let number else { return addNull() }
    add(Int32(number.bitWidth / 8))
    add(number)
  }

  mutating func add(_ flag: Bool) {
    add(Int32(1))
    bytes.append(flag ? 1 : 0)
  }

  mutating func add(_ id: StoredUUID) {
    add(Int32(16))
    bytes.append(id)
  }

  mutating func add(numbers: [Int32]) {
    add(array: numbers.count, 4 * numbers.count, PostgreSQLValue.ObjectID.int4)
    for number in numbers { add(integer: number) }
  }

  mutating func add(texts: [String]) {
    add(array: texts.count, texts.reduce(0) { $0 + $1.utf8.count }, PostgreSQLValue.ObjectID.text)
    for text in texts { add(text: text) }
  }

  /// What stands before the elements of an array: see ``PostgreSQLValue``.
  private mutating func add(array count: Int, _ byteCount: Int, _ type: Oid) {
    guard count > 0 else {
      add(Int32(12))
      for number in [0, 0, Int32(bitPattern: type)] { add(number) }
      return
    }
    add(Int32(20 + byteCount + 4 * count))
    for number in [1, 0, Int32(bitPattern: type), Int32(count), 1] { add(number) }
  }

  fileprivate static let end: [UInt8] = [0xff, 0xff]
}

extension PostgreSQLConnection {
  private static let portion = 256 << 10

  /// Writes rows, in a transaction that the caller began: a pipeline cannot have them.
  func copy(_ rows: PostgreSQLCopy, by deadline: MonotonicTime) throws(StoreError) {
    try begin(copy: "COPY \(rows.table) FROM STDIN (FORMAT binary)", by: deadline)
    var rest = rows.bytes[...]
    while !rest.isEmpty {
      try put(rest.prefix(Self.portion), by: deadline)
      rest = rest.dropFirst(Self.portion)
    }
    try put(PostgreSQLCopy.end[...], by: deadline)
    try endCopy(by: deadline)
  }
}
