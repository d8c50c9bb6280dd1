internal import Glibc

/// The file that says which process owns a journal's directory.
///
/// The lock is the kernel's (`flock`), so it ends with the process in every case. The file stays,
/// with the id of its last owner. It must never be deleted: two processes could then lock two files
/// with that name.
final class PosixLock: JournalLock {
  static let name = "lock"

  private let descriptor: Descriptor

  private init(_ descriptor: Descriptor) { self.descriptor = descriptor }

  static func take(directory: Int32, path: String) throws(JournalFileError) -> JournalLockAttempt {
    let number = unsafe openat(directory, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard number >= 0 else { throw JournalFileError(.lock, path: path, code: errno) }
    let descriptor = Descriptor(number)
    guard flock(number, LOCK_EX | LOCK_NB) == 0 else {
      let code = errno
      guard code == EWOULDBLOCK else { throw JournalFileError(.lock, path: path, code: code) }
      return .held(by: owner(number))
    }
    let text = Array("\(getpid())\n".utf8)
    guard ftruncate(number, 0) == 0, unsafe pwrite(number, text, text.count, 0) == text.count else {
      throw JournalFileError(.lock, path: path, code: errno)
    }
    return .taken(PosixLock(descriptor))
  }

  private static func owner(_ number: Int32) -> Int32? {
    let text = unsafe withUnsafeTemporaryAllocation(byteCount: 32, alignment: 1) { buffer in
      let count = unsafe pread(number, buffer.baseAddress, buffer.count, 0)
      return unsafe String(decoding: buffer[..<max(0, count)], as: UTF8.self)
    }
    return Int32(text.prefix { $0.isNumber })
  }

  func release() { _ = flock(descriptor.number, LOCK_UN) }
}
