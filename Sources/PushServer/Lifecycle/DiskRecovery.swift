internal import Carillon
internal import Foundation
internal import Glibc
internal import Logging
internal import NIOPosix
internal import PushService
internal import ServiceLifecycle

/// Restarts the service when its journal has failed and its disk has room again.
///
/// A journal whose write failed is not written any more, because it is unknown what the failed
/// write left on the disk. Opening it again reads that, and continues behind it.
struct DiskRecovery: Service {
  let deployment: Deployment
  /// The folders of the journal and of the store.
  let folders: [String]
  /// Between looks. Longer after each life that ended soon.
  let pause: Duration
  let clock: any ServiceClock
  let logger: Logger
  /// Called once, before this service returns and so ends the others.
  let begin: @Sendable () -> Void

  func run() async throws {
    await cancelWhenGracefulShutdown {
      while (try? await clock.sleep(for: pause)) != nil {
        guard let failure = deployment.journalFailure else { continue }
        guard await DiskState.all(folders) == .writable else { continue }
        logger.notice("the service restarts, because its disk can be written again", metadata: ["after": "\(failure)"])
        begin()
        return
      }
    }
  }
}

/// Whether a file can be written in a folder.
enum DiskState: Hashable, Sendable {
  case writable
  /// The disk is full, or its writes fail, which time can mend: the `errno`.
  case waiting(Int32)
  /// Something that an operator must change, such as a mode: the `errno`.
  case refused(Int32)

  /// Enough for a start and some work. With less, the service would soon fail again.
  private static let neededByteCount = 16 << 20
  private static let stepByteCount = 1 << 20

  init(code: Int32) { self = [ENOSPC, EDQUOT, EFBIG, EIO].contains(code) ? .waiting(code) : .refused(code) }

  /// A sentence without its full stop; nil: it can be written.
  func reason(_ folder: String) -> String? {
    switch self {
    case .writable: nil
    case .waiting(let code), .refused(let code): "\(folder) cannot be written: \(Self.message(code))"
    }
  }

  static func message(_ code: Int32) -> String { unsafe strerror(code).map { unsafe String(cString: $0) } ?? "\(code)" }

  /// The first state of the folders that is not `writable`. Blocks no thread of the common pool.
  static func all(_ folders: [String]) async -> DiskState {
    let found = try? await NIOThreadPool.singleton.runIfActive { folders.map { DiskState.of($0) } }
    return found?.first { $0 != .writable } ?? .writable
  }

  /// Writes what a start needs. An allocation proves nothing: a disk can promise room and fail.
  static func of(_ folder: String) -> DiskState {
    let path = "\(folder)/.room-\(UUID().uuidString)"
    let file = unsafe open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard file >= 0 else { return DiskState(code: errno) }
    defer { close(file) }
    // Unlinked at once, so no crash leaves it behind.
    unsafe unlink(path)
    let code = posix_fallocate(file, 0, off_t(neededByteCount))
    guard code == 0 else { return DiskState(code: code) }
    let step = (0..<stepByteCount).map { UInt8(truncatingIfNeeded: $0 &* 31) }
    var written = 0
    while written < neededByteCount {
      let count = unsafe write(file, step, min(step.count, neededByteCount - written))
      if count <= 0 {
        guard count < 0, errno == EINTR else { return DiskState(code: count == 0 ? ENOSPC : errno) }
        continue
      }
      written += count
    }
    return fsync(file) == 0 ? .writable : DiskState(code: errno)
  }

  /// Whether a living process holds a journal. Nothing is changed.
  static func isLocked(journal directory: String) -> Bool {
    let file = unsafe open(directory + "/lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
    guard file >= 0 else { return false }
    defer { close(file) }
    return flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK
  }

  /// The folder, or the one in which it would be made.
  static func nearest(_ folder: String) -> String {
    guard !FileManager.default.fileExists(atPath: folder) else { return folder }
    return URL(filePath: folder).deletingLastPathComponent().path(percentEncoded: false)
  }
}

extension ServerConfiguration {
  /// The folders of the journal and of the store.
  func folders(besides file: String) -> [String] {
    [
      journal.directory ?? ".",
      URL(filePath: store.base(besides: file)).deletingLastPathComponent().path(percentEncoded: false),
    ]
  }
}
