internal import Foundation
internal import PushTransport

/// Opens files that commands write device tokens into. New files can be read and written by this
/// user only.
package enum OutputFile {
  /// Why a file cannot be opened, for a sentence.
  package struct Problem: Error {
    package let text: String

    init(_ text: String) { self.text = text }
    init(code: Int32) { text = SystemCall.reason(code) }
  }

  private static let mode: mode_t = 0o600
  /// As many links in a row as Linux follows.
  private static let linkLimit = 40

  /// Opens a file, which is made if it is not there, to be written.
  ///
  /// - Parameter flags: `O_TRUNC` or `O_APPEND`.
  package static func open(_ path: String, flags: Int32) throws(Problem) -> Int32 {
    let target = try resolve(path)
    // A link that is made between the check and this call is not followed.
    let noFollow = isOfKernel(target) ? 0 : O_NOFOLLOW
    let isNew = unsafe access(target, F_OK) != 0
    let descriptor = unsafe Foundation.open(target, O_WRONLY | O_CREAT | O_CLOEXEC | flags | noFollow, mode)
    guard descriptor >= 0 else { throw Problem(code: errno) }
    if isNew { syncDirectory(of: target) }
    return descriptor
  }

  /// Writes all of `bytes`. Returns the system's reason if that fails.
  package static func write(_ bytes: [UInt8], to descriptor: Int32) -> String? {
    let code = SystemCall.write(bytes, to: descriptor)
    return code == 0 ? nil : SystemCall.reason(code)
  }

  /// Makes a file of a random name beside `target`, to be renamed to it when it is complete.
  package static func makeReplacement(of target: String) throws(Problem) -> (descriptor: Int32, path: String) {
    let path = "\(target).\(String(UInt64.random(in: 0 ... .max), radix: 16)).new"
    let descriptor = unsafe Foundation.open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode)
    guard descriptor >= 0 else { throw Problem(code: errno) }
    return (descriptor, path)
  }

  /// Makes durable what was written to a file. Returns 0, or the `errno` of the failure: 0 for
  /// pipes and terminals, which have no disk.
  package static func sync(_ descriptor: Int32) -> Int32 {
    while fdatasync(descriptor) != 0 {
      guard errno != EINTR else { continue }
      return errno == EINVAL || errno == EROFS ? 0 : errno
    }
    return 0
  }

  /// Makes a name durable that was made or changed in the folder of `path`. File systems that
  /// cannot do that are left alone.
  package static func syncDirectory(of path: String) {
    let directory = unsafe Foundation.open(folder(of: path), O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard directory >= 0 else { return }
    fsync(directory)
    close(directory)
  }

  /// The file that `path` leads to.
  ///
  /// Symbolic links are followed only if they belong to this user or to the system: another user
  /// may have made one to have our file overwritten.
  package static func resolve(_ path: String) throws(Problem) -> String {
    var target = path
    for _ in 0..<linkLimit {
      var status = stat()
      let isLink = unsafe lstat(target, &status) == 0 && status.st_mode & S_IFMT == S_IFLNK
      guard isLink, !isOfKernel(target) else { return target }
      guard status.st_uid == geteuid() || status.st_uid == 0 else {
        throw Problem("\(target) is a symbolic link that belongs to another user; name a file that is no link")
      }
      guard let next = try? FileManager.default.destinationOfSymbolicLink(atPath: target) else {
        throw Problem("the symbolic link cannot be read")
      }
      target = next.hasPrefix("/") ? next : folder(of: target) + "/" + next
    }
    throw Problem(code: ELOOP)
  }

  private static func folder(of path: String) -> String {
    guard let slash = path.lastIndex(of: "/") else { return "." }
    return slash == path.startIndex ? "/" : String(path[..<slash])
  }

  /// A descriptor of this process, such as `/dev/stdout`: its link leads to whatever is open there.
  private static func isOfKernel(_ path: String) -> Bool { path.hasPrefix("/proc/") || path.hasPrefix("/dev/fd/") }
}
