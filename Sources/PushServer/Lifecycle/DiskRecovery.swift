internal import Carillon
internal import Foundation
internal import Glibc
internal import Logging
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
  let logger: Logger
  /// Called once, before this service returns and so ends the others.
  let begin: @Sendable () -> Void

  /// Enough for a start and some work. With less, the service would soon fail again.
  private static let neededByteCount = 16 << 20

  func run() async throws {
    await cancelWhenGracefulShutdown {
      while (try? await Task.sleep(for: pause)) != nil {
        guard let failure = deployment.journalFailure, folders.allSatisfy(Self.hasRoom) else { continue }
        logger.notice(
          "the service restarts, because its disk can be written again", metadata: ["after": "\(failure)"])
        begin()
        return
      }
    }
  }

  /// Whether a file can be written there.
  static func hasRoom(_ folder: String) -> Bool {
    let path = "\(folder)/.room-\(UUID().uuidString)"
    let file = unsafe open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard file >= 0 else { return false }
    defer { close(file) }
    // Unlinked at once, so no crash leaves it behind.
    unsafe unlink(path)
    return posix_fallocate(file, 0, off_t(neededByteCount)) == 0 && fsync(file) == 0
  }
}
