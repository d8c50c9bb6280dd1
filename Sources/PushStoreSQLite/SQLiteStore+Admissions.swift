internal import Foundation
internal import GRDB
package import PushStore

extension SQLiteStore {
  package func notAdmitted(_ request: AdmissionRequest) async throws(StoreError) -> Set<[UInt8]> {
    if request.isTrial { return try await read { try Self.notAdmitted(request, $0) { _, _ in } } }
    return try await writer.write(isBulk: true) { database in
      let write = try database.cachedStatement(
        sql: "INSERT OR REPLACE INTO admissions (app, member, campaigns, lastAt) VALUES (?, ?, ?, ?)")
      return try Self.notAdmitted(request, database) { member, admissions in
        try write.execute(arguments: [request.app, Data(member), Data(admissions.bytes), request.now.milliseconds])
      }
    }
  }

  private static func notAdmitted(
    _ request: AdmissionRequest, _ database: Database, _ write: ([UInt8], Admissions) throws -> Void
  ) throws -> Set<[UInt8]> {
    let find = try database.cachedStatement(sql: "SELECT campaigns FROM admissions WHERE app = ? AND member = ?")
    var refused: Set<[UInt8]> = []
    for member in request.members {
      let known = try Data.fetchOne(find, arguments: [request.app, Data(member)])
      var admissions = Admissions(reading: known.map(Array.init) ?? [])
      if !admissions.admit(request) {
        refused.insert(member)
      } else if admissions.bytes != known.map(Array.init) ?? [] {
        try write(member, admissions)
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
      admissions WHERE (app, member) IN (SELECT app, member FROM admissions WHERE lastAt < ? ORDER BY lastAt LIMIT ?)
      """, [instant.milliseconds], portion: 1_000)
  }
}
