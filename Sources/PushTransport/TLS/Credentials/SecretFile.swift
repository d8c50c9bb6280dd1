internal import Glibc
internal import PushWire

/// Files with certificates, keys and passphrases, read as a whole. Such files are small, so a large
/// one is an error.
enum SecretFile {
  /// Far above any certificate bundle; the system's roots take a quarter of it.
  static let byteCountLimit = 1 << 20

  struct Contents {
    let bytes: [UInt8]
    /// The permission bits of a regular file; nil for a pipe and the like, whose access is not
    /// checked.
    let mode: UInt32?
    /// Whether users may read, write or run the file who are neither its owner nor trusted: see
    /// ``SecretFile/isOpenToOthers(mode:owner:group:ownGroups:)``.
    let isOpenToOthers: Bool

    init(bytes: [UInt8], mode: UInt32? = nil, isOpenToOthers: Bool = false) {
      (self.bytes, self.mode, self.isOpenToOthers) = (bytes, mode, isOpenToOthers)
    }

    /// Without its line end.
    var firstLine: [UInt8] {
      let line = bytes.prefix { $0 != UInt8(ascii: "\n") }
      return Array(line.last == UInt8(ascii: "\r") ? line.dropLast() : line)
    }
  }

  static func read(_ path: String) throws(CredentialError) -> Contents {
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw .unreadable(file: path, reason: SystemCall.reason(errno)) }
    defer { _ = close(descriptor) }
    var status = stat()
    guard unsafe fstat(descriptor, &status) == 0 else {
      throw .unreadable(file: path, reason: SystemCall.reason(errno))
    }
    let kind = status.st_mode & S_IFMT
    guard kind != S_IFDIR else { throw .unreadable(file: path, reason: "it is a directory") }

    var bytes: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 16 * 1024)
    while true {
      let count = unsafe Glibc.read(descriptor, &chunk, chunk.count)
      if count < 0, errno == EINTR { continue }
      guard count >= 0 else { throw .unreadable(file: path, reason: SystemCall.reason(errno)) }
      if count == 0 { break }
      bytes += chunk[..<count]
      guard bytes.count <= byteCountLimit else {
        throw .unreadable(file: path, reason: "it is larger than 1 MiB, so it is not a certificate, key or passphrase")
      }
    }
    guard kind == S_IFREG else { return Contents(bytes: bytes) }
    let mode = UInt32(status.st_mode & 0o777)
    let isOpen = isOpenToOthers(mode: mode, owner: status.st_uid, group: status.st_gid, ownGroups: ownGroups)
    return Contents(bytes: bytes, mode: mode, isOpenToOthers: isOpen)
  }

  /// Whether others than the owner have access. What the system's administrator owns may be read by
  /// a group of this process: so Kubernetes mounts secrets (`fsGroup`), and so services get keys.
  static func isOpenToOthers(mode: UInt32, owner: UInt32, group: UInt32, ownGroups: Set<UInt32>) -> Bool {
    if owner == 0, mode & 0o037 == 0, ownGroups.contains(group), group != 0 { return false }
    return mode & 0o077 != 0
  }

  private static var ownGroups: Set<UInt32> {
    let count = getgroups(0, nil)
    var groups = [gid_t](repeating: 0, count: max(0, Int(count)))
    let found = unsafe getgroups(count, &groups)
    return Set(groups.prefix(max(0, Int(found)))).union([getegid()])
  }

  /// Writes a new file or replaces an old one. The mode is set before the first byte is written.
  static func write(_ bytes: [UInt8], to path: String, mode: UInt32) throws(CredentialError) {
    _ = unsafe unlink(path)
    let descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode_t(mode))
    guard descriptor >= 0 else { throw .unwritable(file: path, reason: SystemCall.reason(errno)) }
    defer { _ = close(descriptor) }
    let problem = SystemCall.write(bytes, to: descriptor)
    guard problem == 0 else { throw .unwritable(file: path, reason: SystemCall.reason(problem)) }
  }

  static func makeDirectory(_ path: String) throws(CredentialError) {
    guard unsafe mkdir(path, 0o755) == 0 || errno == EEXIST else {
      throw .unwritable(file: path, reason: SystemCall.reason(errno))
    }
  }
}

/// What the first line of a file is, without its line end. Only the owner may have access to it.
package enum SecretLine: String, Sendable, Hashable, CustomStringConvertible {
  case passphrase
  /// For a proxy.
  case password
  /// Both sides of a webhook have it.
  case secret

  var byteCounts: ClosedRange<Int> {
    switch self {
    case .passphrase: 0...SecretFile.byteCountLimit
    case .password: 1...ProxyCredentials.byteCountLimit
    case .secret: 16...1024
    }
  }

  package var description: String { rawValue }

  package func read(_ path: String) throws(CredentialError) -> [UInt8] {
    let contents = try SecretFile.read(path)
    if contents.isOpenToOthers, let mode = contents.mode { throw .lineOpenToOthers(self, file: path, mode: mode) }
    guard byteCounts.contains(contents.firstLine.count) else { throw .lineUnusable(self, file: path) }
    return contents.firstLine
  }
}

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
