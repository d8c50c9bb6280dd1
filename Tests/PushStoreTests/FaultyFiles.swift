internal import Foundation
internal import GRDB
internal import GRDBSQLite
internal import Synchronization

/// The files of SQLite in this process, below SQLite itself: operations on files of one folder are
/// counted, and the n-th fails, alone or with all later ones.
enum FaultyFiles {
  struct Plan: Sendable {
    /// What the paths of the files begin with. Everybody else's files work as usual.
    var folder: String
    /// The number of the operation that fails, from 1; 0: none does.
    var failing: Int
    /// Whether all later ones fail as well.
    var forGood: Bool
    private(set) var count = 0

    init(folder: String, failing: Int, forGood: Bool) {
      (self.folder, self.failing, self.forGood) = (folder, failing, forGood)
    }

    mutating func nextFails() -> Bool {
      count += 1
      return failing > 0 && (count == failing || forGood && count > failing)
    }
  }

  private static let plan = Mutex<Plan?>(nil)
  /// The methods of the open files of the folder, by the file's address.
  private static let originals = Mutex<[UInt: UInt]>([:])

  /// Calls `body` with files that follow the plan, and returns how many operations it took.
  static func with(_ wanted: Plan, _ body: () async throws -> Void) async rethrows -> Int {
    precondition(isRegistered, "SQLite has taken no other files")
    plan.withLock { $0 = wanted }
    defer { plan.withLock { $0 = nil } }
    try await body()
    return plan.withLock { $0?.count } ?? 0
  }

  private static func nextFails() -> Bool { plan.withLock { $0?.nextFails() } ?? false }

  private static func concerns(_ path: UnsafePointer<CChar>?) -> Bool {
    guard let path = unsafe path.map({ unsafe String(cString: $0) }) else { return false }
    return plan.withLock { $0.map { path.hasPrefix($0.folder) } } ?? false
  }

  /// The methods of a file as its opener got them.
  private static func methods(_ file: UnsafeMutablePointer<sqlite3_file>?) -> sqlite3_io_methods {
    let address = originals.withLock { $0[UInt(bitPattern: file)] } ?? 0
    guard let methods = unsafe UnsafePointer<sqlite3_io_methods>(bitPattern: address) else {
      preconditionFailure("a file that nobody opened")
    }
    return unsafe methods.pointee
  }

  private static let isRegistered: Bool = {
    guard let usual = unsafe sqlite3_vfs_find(nil) else { return false }
    let vfs = UnsafeMutablePointer<sqlite3_vfs>.allocate(capacity: 1)
    unsafe vfs.initialize(to: usual.pointee)
    unsafe vfs.pointee.zName = unsafe UnsafePointer(strdup("faulty"))
    unsafe vfs.pointee.pNext = nil
    unsafe vfs.pointee.xOpen = { vfs, path, file, flags, outFlags in
      let isOurs = unsafe FaultyFiles.concerns(path)
      if isOurs && FaultyFiles.nextFails() {
        // Otherwise SQLite would close it.
        unsafe file?.pointee.pMethods = nil
        return SQLITE_CANTOPEN
      }
      let usual = unsafe sqlite3_vfs_find("unix")
      let status = unsafe usual?.pointee.xOpen(usual, path, file, flags, outFlags) ?? SQLITE_ERROR
      guard isOurs, status == SQLITE_OK, let file = unsafe file, let methods = unsafe file.pointee.pMethods else {
        return status
      }
      FaultyFiles.originals.withLock { $0[UInt(bitPattern: file)] = UInt(bitPattern: methods) }
      unsafe file.pointee.pMethods = unsafe UnsafePointer(faulty(unsafe methods.pointee))
      return status
    }
    unsafe vfs.pointee.xDelete = { _, path, sync in
      if unsafe FaultyFiles.concerns(path), FaultyFiles.nextFails() { return ResultCode.SQLITE_IOERR_DELETE.rawValue }
      let usual = unsafe sqlite3_vfs_find("unix")
      return unsafe usual?.pointee.xDelete(usual, path, sync) ?? SQLITE_ERROR
    }
    unsafe vfs.pointee.xAccess = { _, path, flags, result in
      if unsafe FaultyFiles.concerns(path), FaultyFiles.nextFails() { return ResultCode.SQLITE_IOERR_ACCESS.rawValue }
      let usual = unsafe sqlite3_vfs_find("unix")
      return unsafe usual?.pointee.xAccess(usual, path, flags, result) ?? SQLITE_ERROR
    }
    return unsafe sqlite3_vfs_register(vfs, 1) == SQLITE_OK
  }()

  /// The same methods, of which each may fail. They live as long as the process: an open file has
  /// them.
  private static func faulty(_ usual: sqlite3_io_methods) -> UnsafeMutablePointer<sqlite3_io_methods> {
    let table = UnsafeMutablePointer<sqlite3_io_methods>.allocate(capacity: 1)
    unsafe table.initialize(to: usual)
    unsafe table.pointee.xClose = { file in
      let close = unsafe FaultyFiles.methods(file).xClose
      FaultyFiles.originals.withLock { $0[UInt(bitPattern: file)] = nil }
      return unsafe close?(file) ?? SQLITE_OK
    }
    unsafe table.pointee.xRead = { file, buffer, count, offset in
      if FaultyFiles.nextFails() { return ResultCode.SQLITE_IOERR_READ.rawValue }
      return unsafe FaultyFiles.methods(file).xRead(file, buffer, count, offset)
    }
    unsafe table.pointee.xWrite = { file, bytes, count, offset in
      if FaultyFiles.nextFails() {
        // Part of it arrives, as when a disk becomes full.
        _ = unsafe FaultyFiles.methods(file).xWrite(file, bytes, count / 2, offset)
        return offset % 2 == 0 ? ResultCode.SQLITE_IOERR_WRITE.rawValue : SQLITE_FULL
      }
      return unsafe FaultyFiles.methods(file).xWrite(file, bytes, count, offset)
    }
    unsafe table.pointee.xTruncate = { file, size in
      if FaultyFiles.nextFails() { return ResultCode.SQLITE_IOERR_TRUNCATE.rawValue }
      return unsafe FaultyFiles.methods(file).xTruncate(file, size)
    }
    // Nobody loses power in these tests: the disk is not waited for.
    unsafe table.pointee.xSync = { _, _ in FaultyFiles.nextFails() ? ResultCode.SQLITE_IOERR_FSYNC.rawValue : SQLITE_OK
    }
    unsafe table.pointee.xFileSize = { file, size in
      if FaultyFiles.nextFails() { return ResultCode.SQLITE_IOERR_FSTAT.rawValue }
      return unsafe FaultyFiles.methods(file).xFileSize(file, size)
    }
    unsafe table.pointee.xLock = { file, level in
      if FaultyFiles.nextFails() { return ResultCode.SQLITE_IOERR_LOCK.rawValue }
      return unsafe FaultyFiles.methods(file).xLock(file, level)
    }
    unsafe table.pointee.xShmMap = { file, region, size, extend, memory in
      if FaultyFiles.nextFails() { return ResultCode.SQLITE_IOERR_SHMMAP.rawValue }
      return unsafe FaultyFiles.methods(file).xShmMap(file, region, size, extend, memory)
    }
    unsafe table.pointee.xShmLock = { file, offset, count, flags in
      if flags & SQLITE_SHM_UNLOCK == 0, FaultyFiles.nextFails() { return ResultCode.SQLITE_IOERR_SHMLOCK.rawValue }
      return unsafe FaultyFiles.methods(file).xShmLock(file, offset, count, flags)
    }
    return unsafe table
  }
}
