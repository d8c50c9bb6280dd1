internal import CPostgreSQL
internal import PushStore

/// A parameter of a statement, sent in binary form.
enum PostgreSQLValue: Sendable {
  /// Of a type: a statement is prepared for the types of its first values.
  case null(Oid)
  case flag(Bool)
  case int(Int64)
  case text(String)
  case bytes([UInt8])
  case uuid(StoredUUID)
  case ints([Int64?])
  /// As the server has tags: it would convert others for each row that it compares.
  case int4s([Int64])
  case texts([String?])
  case blobs([[UInt8]?])
  case uuids([StoredUUID])

  init(_ text: String?) { self = text.map { .text($0) } ?? .null(ObjectID.text) }
  init(_ instant: StoreInstant?) { self = instant.map { .int($0.milliseconds) } ?? .null(ObjectID.int8) }
  init(_ number: Int64?) { self = number.map { .int($0) } ?? .null(ObjectID.int8) }
  static func instant(_ instant: StoreInstant) -> PostgreSQLValue { .int(instant.milliseconds) }
  static func int(_ number: Int) -> PostgreSQLValue { .int(Int64(number)) }

  /// Numbers of types that PostgreSQL never changes (pg_type.dat).
  enum ObjectID {
    static let bool: Oid = 16
    static let bytea: Oid = 17
    static let int8: Oid = 20
    static let int4: Oid = 23
    static let text: Oid = 25
    static let uuid: Oid = 2950
    static let byteaArray: Oid = 1001
    static let textArray: Oid = 1009
    static let int4Array: Oid = 1007
    static let int8Array: Oid = 1016
    static let uuidArray: Oid = 2951
  }

  var type: Oid {
    switch self {
    case .null(let type): type
    case .flag: ObjectID.bool
    case .int: ObjectID.int8
    case .text: ObjectID.text
    case .bytes: ObjectID.bytea
    case .uuid: ObjectID.uuid
    case .ints: ObjectID.int8Array
    case .int4s: ObjectID.int4Array
    case .texts: ObjectID.textArray
    case .blobs: ObjectID.byteaArray
    case .uuids: ObjectID.uuidArray
    }
  }

  /// Nil for null.
  var binary: [UInt8]? {
    switch self {
    case .null: nil
    case .flag(let flag): [flag ? 1 : 0]
    case .int(let number): Self.binary { $0.append(bigEndian: number) }
    case .text(let text): Array(text.utf8)
    case .bytes(let bytes): bytes
    case .uuid(let id): Self.binary { $0.append(id) }
    case .ints(let numbers):
      Self.array(ObjectID.int8, numbers, byteCount: { _ in 8 }) { $0.append(bigEndian: $1) }
    case .int4s(let numbers):
      Self.array(ObjectID.int4, numbers, byteCount: { _ in 4 }) { $0.append(bigEndian: Int32(truncatingIfNeeded: $1)) }
    case .texts(let texts):
      Self.array(ObjectID.text, texts, byteCount: \.utf8.count) { $0.append(contentsOf: $1.utf8) }
    case .blobs(let blobs): Self.array(ObjectID.bytea, blobs, byteCount: \.count) { $0.append(contentsOf: $1) }
    case .uuids(let ids): Self.array(ObjectID.uuid, ids, byteCount: { _ in 16 }) { $0.append($1) }
    }
  }

  private static func binary(_ write: (inout [UInt8]) -> Void) -> [UInt8] {
    var bytes: [UInt8] = []
    write(&bytes)
    return bytes
  }

  /// As `array_send` has it: the number of dimensions, whether there are nulls, the elements' type,
  /// their number, the first index, and each with its length.
  private static func array<Element>(
    _ type: Oid, _ elements: [Element?], byteCount: (Element) -> Int, _ write: (inout [UInt8], Element) -> Void
  ) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(elements.reduce(20) { $0 + 4 + ($1.map(byteCount) ?? 0) })
    let hasNull = elements.contains { $0 == nil }
    for number in [elements.isEmpty ? 0 : 1, hasNull ? 1 : 0, Int32(bitPattern: type)] as [Int32] {
      bytes.append(bigEndian: number)
    }
    guard !elements.isEmpty else { return bytes }
    bytes.append(bigEndian: Int32(elements.count))
    bytes.append(bigEndian: Int32(1))
    for element in elements {
      guard let element else {
        bytes.append(bigEndian: Int32(-1))
        continue
      }
      bytes.append(bigEndian: Int32(byteCount(element)))
      write(&bytes, element)
    }
    return bytes
  }
}

extension [UInt8] {
  /// The most significant byte first.
  mutating func append(bigEndian number: some FixedWidthInteger) {
    unsafe Swift.withUnsafeBytes(of: number.bigEndian) { unsafe append(contentsOf: $0) }
  }

  mutating func append(_ id: StoredUUID) {
    append(bigEndian: id.high)
    append(bigEndian: id.low)
  }
}

extension FixedWidthInteger {
  /// The most significant byte first.
  init(bigEndian bytes: some Sequence<UInt8>) { self = bytes.reduce(0) { $0 << 8 | Self(truncatingIfNeeded: $1) } }
}

extension StoredUUID {
  init(bytes: [UInt8]) {
    self.init(high: UInt64(bigEndian: bytes.prefix(8)), low: UInt64(bigEndian: bytes.dropFirst(8).prefix(8)))
  }
}

/// A statement with its parameters.
struct PostgreSQLStatement: Sendable {
  let sql: String
  let values: [PostgreSQLValue]

  init(_ sql: String, _ values: PostgreSQLValue...) { (self.sql, self.values) = (sql, values) }
  init(_ sql: String, values: [PostgreSQLValue]) { (self.sql, self.values) = (sql, values) }
}

/// The rows that a statement gave. Columns are counted from 0.
///
/// Sync: nothing changes it, and libpq's functions read such results on any thread.
@safe final class PostgreSQLRows: @unchecked Sendable {
  private let result: OpaquePointer

  /// - Parameter result: released with this object.
  init(_ result: OpaquePointer) { unsafe self.result = unsafe result }

  deinit { unsafe PQclear(result) }

  var count: Int { Int(unsafe PQntuples(result)) }

  /// How many rows the statement has written.
  var changedCount: Int { unsafe Int(String(cString: PQcmdTuples(result))) ?? 0 }

  private func field<Value>(_ row: Int, _ column: Int, _ read: (UnsafeRawBufferPointer) -> Value) -> Value? {
    let (row, column) = (Int32(row), Int32(column))
    guard unsafe PQgetisnull(result, row, column) == 0, let start = unsafe PQgetvalue(result, row, column) else {
      return nil
    }
    return unsafe read(UnsafeRawBufferPointer(start: start, count: Int(PQgetlength(result, row, column))))
  }

  /// Of any of the server's integer types.
  func optionalInt(_ row: Int, _ column: Int) -> Int64? {
    unsafe field(row, column) { bytes in
      // Sign-extended from their own width.
      let unused = 64 - 8 * bytes.count
      return unsafe (Int64(bigEndian: bytes) << unused) >> unused
    }
  }
  func int(_ row: Int, _ column: Int) -> Int64 { optionalInt(row, column) ?? 0 }
  /// Which numbers a column has.
  func distinctInts(_ column: Int) -> Set<Int64> {
    var found: Set<Int64> = []
    var last: Int64?
    for row in 0..<count {
      guard let number = optionalInt(row, column), number != last else { continue }
      found.insert(number)
      last = number
    }
    return found
  }
  func flag(_ row: Int, _ column: Int) -> Bool { unsafe field(row, column) { unsafe $0.first == 1 } ?? false }
  func optionalText(_ row: Int, _ column: Int) -> String? {
    unsafe field(row, column) { unsafe String(decoding: $0, as: UTF8.self) }
  }
  func text(_ row: Int, _ column: Int) -> String { optionalText(row, column) ?? "" }
  func optionalBytes(_ row: Int, _ column: Int) -> [UInt8]? { unsafe field(row, column) { unsafe Array($0) } }
  func bytes(_ row: Int, _ column: Int) -> [UInt8] { optionalBytes(row, column) ?? [] }
  func uuid(_ row: Int, _ column: Int) -> StoredUUID { StoredUUID(bytes: bytes(row, column)) }
  func optionalInstant(_ row: Int, _ column: Int) -> StoreInstant? {
    optionalInt(row, column).map(StoreInstant.init(milliseconds:))
  }
  func instant(_ row: Int, _ column: Int) -> StoreInstant { StoreInstant(milliseconds: int(row, column)) }

  /// The elements of an array of one dimension, without nulls.
  private func elements(_ row: Int, _ column: Int) -> [[UInt8]] {
    let bytes = bytes(row, column)
    var rest = bytes.dropFirst(20)
    var elements: [[UInt8]] = []
    while rest.count >= 4 {
      let length = Int(Int32(bigEndian: rest.prefix(4)))
      rest = rest.dropFirst(4)
      guard length >= 0 else { continue }
      elements.append(Array(rest.prefix(length)))
      rest = rest.dropFirst(length)
    }
    return elements
  }

  /// Nil: it is null.
  func optionalTexts(_ row: Int, _ column: Int) -> [String]? {
    guard optionalBytes(row, column) != nil else { return nil }
    return elements(row, column).map { String(decoding: $0, as: UTF8.self) }
  }
  func ints(_ row: Int, _ column: Int) -> [Int64] {
    elements(row, column).map { $0.count == 4 ? Int64(Int32(bigEndian: $0)) : Int64(bigEndian: $0) }
  }
  func texts(_ row: Int, _ column: Int) -> [String] { optionalTexts(row, column) ?? [] }

  func map<Value>(_ read: (PostgreSQLRows, Int) throws -> Value) rethrows -> [Value] {
    try (0..<count).map { try read(self, $0) }
  }
}
