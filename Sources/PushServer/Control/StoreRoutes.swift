package import Carillon
internal import Foundation
internal import Hummingbird
internal import NIOCore
internal import PushStore
package import PushStoreSQLite

struct StoreRoutes: Sendable {
  let access: ControlAccess
  /// The path of the store's file.
  let path: String

  private static let blockByteCount = 256 << 10

  func add(to router: Router<ControlContext>) { router.post("v1/store:backup", use: postBackup) }

  /// Answers with a copy of the store, written beside it first: a slow reader holds nothing up.
  private func postBackup(_ request: Request, _ context: ControlContext) async throws -> Response {
    let grant = try await access.serviceGrant(request, context, .admin, because: "The store has every app")
    let copy = path + ".backup-\(UUID().uuidString)"
    let file = try StoreFile(path: path)
    try await file.backUp(to: copy)
    try file.close()
    let handle: FileHandle
    let size: UInt64
    do {
      handle = try FileHandle(forReadingFrom: URL(filePath: copy))
      size = try handle.seekToEnd()
      try handle.seek(toOffset: 0)
      // The open file stays until it is read, whatever happens to the service.
      try FileManager.default.removeItem(atPath: copy)
    } catch {
      try? FileManager.default.removeItem(atPath: copy)
      throw error
    }
    return Response(
      status: .ok, headers: [.contentType: "application/vnd.sqlite3"],
      body: ResponseBody(contentLength: Int(size)) { writer in
        while try await grant.isValid(), let block = try handle.read(upToCount: Self.blockByteCount), !block.isEmpty {
          try await writer.write(ByteBuffer(bytes: block))
        }
        // It is cut off if the key was revoked: fewer bytes came than were announced.
        try await writer.finish(nil)
      })
  }
}

/// Checks and copies a store: the work of `carillon store`.
package enum StoreMaintenance {
  /// Reads every page of a store.
  ///
  /// - Parameter path: of the store.
  package static func check(_ path: String) async throws(CarillonError) -> StoreReport {
    try await describingStoreErrors { () async throws(StoreError) in
      let file = try StoreFile(path: path)
      let report = try await file.check()
      try file.close()
      return report
    }
  }

  /// Copies a store that no other process has to be asked for.
  package static func backUp(_ path: String, to copy: String) async throws(CarillonError) {
    try await describingStoreErrors { () async throws(StoreError) in
      let file = try StoreFile(path: path)
      try await file.backUp(to: copy)
      try file.close()
    }
  }
}
