internal import Foundation
internal import GRDB
internal import GRDBSQLite

/// The bytes of a column, read without a `Data` in between: of the devices of a campaign, that was
/// a third of the time.
struct Blob: DatabaseValueConvertible, StatementColumnConvertible {
  let bytes: [UInt8]

  init(sqliteStatement statement: SQLiteStatement, index: CInt) {
    // In this order, as SQLite asks for it. Without bytes there is no pointer.
    let pointer = unsafe sqlite3_column_blob(statement, index)
    bytes = unsafe Array(
      UnsafeRawBufferPointer(start: pointer, count: Int(sqlite3_column_bytes(statement, index))))
  }

  private init(_ data: Data) { bytes = Array(data) }

  var databaseValue: DatabaseValue { Data(bytes).databaseValue }

  static func fromDatabaseValue(_ value: DatabaseValue) -> Blob? { Data.fromDatabaseValue(value).map(Blob.init) }
}
