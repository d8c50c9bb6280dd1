internal import Carillon
internal import Foundation
internal import Hummingbird
internal import NIOCore
internal import PushStore
internal import PushStoreSQLite

/// The store as a whole.
struct StoreRoutes: Sendable {
  let access: ControlAccess
  /// The path of the store's file.
  let path: String

  private static let blockByteCount = 256 << 10

  func add(to router: Router<ControlContext>) { router.post("v1/store:backup", use: postBackup) }

  /// Answers with a copy of the store. It is written beside the store first, so a slow reader holds
  /// nothing up.
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
