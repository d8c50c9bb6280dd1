internal import Foundation
internal import PushTransport

/// What makes a file the same file later: its size, and the SHA-256 of its content.
package struct FileFingerprint: Hashable, Sendable, Codable {
  var byteCount: Int
  /// In hexadecimal, as `sha256sum` prints it.
  var sha256: String

  /// The same for a regular file; nil for anything else, such as a pipe, which cannot be read
  /// twice.
  static func ofRegularFile(_ path: String) throws(CarillonError) -> FileFingerprint? {
    var status = stat()
    guard unsafe stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return nil }
    return try read(path)
  }

  /// Reads all of the file.
  package static func read(_ path: String) throws(CarillonError) -> FileFingerprint {
    func failure(_ code: Int32) -> CarillonError {
      CarillonError(.audience, "\(path) cannot be read: \(SystemCall.reason(code))")
    }
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw failure(errno) }
    defer { close(descriptor) }
    let block = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 64)
    defer { unsafe block.deallocate() }
    let digest = Digest.SHA256()
    var byteCount = 0
    while true {
      let count = unsafe Foundation.read(descriptor, block.baseAddress, block.count)
      if count < 0, errno == EINTR { continue }
      guard count >= 0 else { throw failure(errno) }
      if count == 0 { break }
      unsafe digest.update(UnsafeRawBufferPointer(rebasing: block[..<count]))
      byteCount += count
    }
    return FileFingerprint(byteCount: byteCount, sha256: Digest.hexadecimal(digest.finish()))
  }

  /// How the file at `path` differs from what it was, in a sentence; nil if it does not.
  package func difference(of path: String) throws(CarillonError) -> String? {
    let now = try FileFingerprint.read(path)
    if now == self { return nil }
    let what =
      now.byteCount == byteCount
      ? "its content is another (SHA-256 \(now.sha256), was "
        + "\(sha256))" : "it has \(now.byteCount) bytes, had \(byteCount)"
    return "\(path) has changed since the campaign began: \(what)"
  }
}
