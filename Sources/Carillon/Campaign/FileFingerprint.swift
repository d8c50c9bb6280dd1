internal import Foundation
internal import PushTransport

/// What makes a file the same file later: its size, and a code of its content.
///
/// The code is an AES-GMAC with a key that is made for the file: it takes a seventh of the
/// time of the file's SHA-256, for which a campaign of millions would have to wait.
package struct FileFingerprint: Hashable, Sendable, Codable {
  var byteCount: Int
  private var key: [UInt8]?
  private var code: [UInt8]?
  /// In hexadecimal. Earlier versions wrote it, and neither key nor code.
  private var sha256: String?

  /// As earlier versions wrote it.
  init(byteCount: Int, sha256: String) { (self.byteCount, self.sha256) = (byteCount, sha256) }

  private init(of path: String, key: [UInt8]) throws(CarillonError) {
    let code = Digest.GMAC(key: key)
    byteCount = try unsafe Self.read(path) { unsafe code?.update($0) }
    self.key = key
    self.code = code?.finish()
    guard self.code != nil else { throw CarillonError(.audience, "OpenSSL cannot compute the AES-GMAC of \(path)") }
  }

  /// The same for a regular file; nil for anything else, such as a pipe, which cannot be read
  /// twice.
  static func ofRegularFile(_ path: String) throws(CarillonError) -> FileFingerprint? {
    var status = stat()
    guard unsafe stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return nil }
    return try read(path)
  }

  /// Reads all of the file.
  package static func read(_ path: String) throws(CarillonError) -> FileFingerprint {
    try FileFingerprint(of: path, key: (0..<Digest.GMAC.keyByteCount).map { _ in .random(in: .min ... .max) })
  }

  /// Reads all of the file, and returns its size.
  private static func read(
    _ path: String, _ body: (UnsafeRawBufferPointer) -> Void
  ) throws(CarillonError) -> Int {
    func failure(_ code: Int32) -> CarillonError {
      CarillonError(.audience, "\(path) cannot be read: \(SystemCall.reason(code))")
    }
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw failure(errno) }
    defer { close(descriptor) }
    // 512 KiB stay in the cache until they are summed up.
    let block = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 19, alignment: 64)
    defer { unsafe block.deallocate() }
    var byteCount = 0
    while true {
      let count = unsafe Foundation.read(descriptor, block.baseAddress, block.count)
      if count < 0, errno == EINTR { continue }
      guard count >= 0 else { throw failure(errno) }
      if count == 0 { return byteCount }
      unsafe body(UnsafeRawBufferPointer(rebasing: block[..<count]))
      byteCount += count
    }
  }

  /// The file as it is now, with the same kind of code.
  private func now(_ path: String) throws(CarillonError) -> FileFingerprint {
    if let key { return try FileFingerprint(of: path, key: key) }
    let digest = Digest.SHA256()
    let byteCount = try unsafe Self.read(path) { unsafe digest.update($0) }
    return FileFingerprint(byteCount: byteCount, sha256: Digest.hexadecimal(digest.finish()))
  }

  /// How the file at `path` differs from what it was, in a sentence; nil if it does not.
  package func difference(of path: String) throws(CarillonError) -> String? {
    let now = try now(path)
    if now == self { return nil }
    let what =
      now.byteCount == byteCount
      ? "its content is another" : "it has \(now.byteCount) bytes, had \(byteCount)"
    return "\(path) has changed since the campaign began: \(what)"
  }
}
