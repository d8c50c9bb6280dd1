internal import Glibc

/// What differs after a file was written or replaced, as one system call says it. Nothing is set
/// for a file that is not there.
package struct FileState: Hashable, Sendable {
  private var modifiedSeconds: Int?
  private var modifiedNanoseconds: Int?
  private var device: UInt?
  private var inode: UInt?
  private var byteCount: Int?

  /// - Parameter path: symbolic links are followed.
  package init(of path: String) {
    var status = stat()
    guard unsafe stat(path, &status) == 0 else { return }
    modifiedSeconds = status.st_mtim.tv_sec
    modifiedNanoseconds = status.st_mtim.tv_nsec
    device = status.st_dev
    inode = status.st_ino
    byteCount = status.st_size
  }
}
