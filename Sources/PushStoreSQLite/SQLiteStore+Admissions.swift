internal import Foundation
internal import GRDB
package import PushStore

extension SQLiteStore {
  package func notAdmitted(_ request: AdmissionRequest) async throws(StoreError) -> Set<[UInt8]> {
    if request.isTrial { return try await read { try Self.notAdmitted(request, $0) { _, _, _ in } } }
    return try await writer.write(isBulk: true) { database in
      let insert = try database.cachedStatement(
        sql: "INSERT OR REPLACE INTO admissions (campaigns, app, member, lastDay) VALUES (?, ?, ?, ?)")
      // Without the index.
      let update = try database.cachedStatement(
        sql: "UPDATE admissions SET campaigns = ? WHERE app = ? AND member = ?")
      return try Self.notAdmitted(request, database) { member, former, admissions in
        let row: StatementArguments = [Data(admissions.bytes), request.app, Data(member)]
        if !former.bytes.isEmpty, former.lastAt.endOfDay == request.now.endOfDay {
          try update.execute(arguments: row)
        } else {
          try insert.execute(arguments: row + [request.now.endOfDay.milliseconds])
        }
      }
    }
  }

  private static func notAdmitted(
    _ request: AdmissionRequest, _ database: Database, _ write: ([UInt8], Admissions, Admissions) throws -> Void
  ) throws -> Set<[UInt8]> {
    let find = try database.cachedStatement(sql: "SELECT campaigns FROM admissions WHERE app = ? AND member = ?")
    var refused: Set<[UInt8]> = []
    for member in request.members {
      let known = try Data.fetchOne(find, arguments: [request.app, Data(member)])
      let former = Admissions(reading: known.map(Array.init) ?? [])
      var admissions = former
      if !admissions.admit(request) {
        refused.insert(member)
      } else if admissions.bytes != former.bytes {
        try write(member, former, admissions)
      }
    }
    return refused
  }

  package func forgetAdmissions(of member: [UInt8], app: String) async throws(StoreError) {
    try await writer.write { database in
      try database.execute(
        sql: "DELETE FROM admissions WHERE app = ? AND member = ?", arguments: [app, Data(member)])
    }
  }

  package func forgetAdmissions(before instant: StoreInstant) async throws(StoreError) {
    try await writer.delete(
      """
      admissions WHERE (app, member) IN (SELECT app, member FROM admissions WHERE lastDay < ? ORDER BY lastDay LIMIT ?)
      """, [instant.milliseconds], portion: 1_000)
  }
}
