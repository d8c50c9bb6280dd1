internal import Glibc

/// A journal's directory on disk.
package struct PosixFiles: JournalFiles {
  package let path: String
  private let directory: Descriptor

  /// Opens the directory. Creates it, for this user only, if it does not exist; its parent must
  /// exist.
  package init(directory path: String) throws(JournalFileError) {
    if unsafe mkdir(path, 0o700) == 0 {
      try Self.syncParent(of: path)
    } else if errno != EEXIST {
      throw JournalFileError(.makeDirectory, path: path, code: errno)
    }
    try self.init(existing: path)
  }

  /// Opens a directory that exists.
  package init(existing path: String) throws(JournalFileError) {
    self.path = path
    let number = unsafe Glibc.open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard number >= 0 else { throw JournalFileError(.open, path: path, code: errno) }
    directory = Descriptor(number)
  }

  private static func syncParent(of path: String) throws(JournalFileError) {
    let number = unsafe Glibc.open(path + "/..", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard number >= 0 else { throw JournalFileError(.open, path: path + "/..", code: errno) }
    let parent = Descriptor(number)
    guard fsync(parent.number) == 0 else { throw JournalFileError(.syncDirectory, path: path + "/..", code: errno) }
  }

  /// The directory's owner if it is not this process's user, otherwise nil.
  var foreignOwner: UInt32? {
    get throws(JournalFileError) {
      var status = stat()
      guard unsafe fstat(directory.number, &status) == 0 else { throw JournalFileError(.open, path: path, code: errno) }
      return status.st_uid == geteuid() ? nil : status.st_uid
    }
  }

  package func list() throws(JournalFileError) -> [String] {
    guard let stream = unsafe opendir(path) else { throw JournalFileError(.list, path: path, code: errno) }
    defer { unsafe closedir(stream) }
    var names: [String] = []
    while true {
      errno = 0
      guard let entry = unsafe readdir(stream) else { break }
      let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) { field in
        unsafe field.withMemoryRebound(to: CChar.self, capacity: MemoryLayout.size(ofValue: field.pointee)) {
          unsafe String(cString: $0)
        }
      }
      names.append(name)
    }
    guard errno == 0 else { throw JournalFileError(.list, path: path, code: errno) }
    return names
  }

  package func create(_ name: String) throws(JournalFileError) -> any JournalFile {
    try openFile(name, flags: O_RDWR | O_CREAT | O_EXCL | O_APPEND, operation: .create)
  }

  package func open(_ name: String, writable: Bool) throws(JournalFileError) -> any JournalFile {
    try openFile(name, flags: writable ? O_RDWR | O_APPEND : O_RDONLY, operation: .open)
  }

  private func openFile(
    _ name: String, flags: Int32, operation: JournalFileError.Operation
  ) throws(JournalFileError) -> PosixFile {
    let number = unsafe openat(directory.number, name, flags | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard number >= 0 else { throw JournalFileError(operation, path: path + "/" + name, code: errno) }
    return PosixFile(Descriptor(number), path: path + "/" + name)
  }

  package func delete(_ name: String) throws(JournalFileError) {
    guard unsafe unlinkat(directory.number, name, 0) == 0 else {
      throw JournalFileError(.delete, path: path + "/" + name, code: errno)
    }
  }

  package func syncDirectory() throws(JournalFileError) {
    guard fsync(directory.number) == 0 else { throw JournalFileError(.syncDirectory, path: path, code: errno) }
  }

  package func takeLock() throws(JournalFileError) -> JournalLockAttempt {
    try PosixLock.take(directory: directory.number, path: path + "/" + PosixLock.name)
  }
}

/// A file descriptor. It is closed with its last reference.
final class Descriptor: Sendable {
  let number: Int32

  init(_ number: Int32) { self.number = number }

  deinit { _ = Glibc.close(number) }
}

/// One segment on disk.
final class PosixFile: JournalFile {
  private let descriptor: Descriptor
  private let path: String

  init(_ descriptor: Descriptor, path: String) { (self.descriptor, self.path) = (descriptor, path) }

  private func failure(_ operation: JournalFileError.Operation, code: Int32 = errno) -> JournalFileError {
    JournalFileError(operation, path: path, code: code)
  }

  func byteCount() throws(JournalFileError) -> Int {
    var status = stat()
    guard unsafe fstat(descriptor.number, &status) == 0 else { throw failure(.read) }
    // A directory or a device with the name of a segment has no frames to read.
    guard status.st_mode & S_IFMT == S_IFREG else { throw failure(.read, code: EINVAL) }
    return Int(status.st_size)
  }

  func append(_ bytes: UnsafeRawBufferPointer) throws(JournalFileError) {
    var written = 0
    while written < bytes.count {
      let rest = unsafe UnsafeRawBufferPointer(rebasing: bytes[written...])
      let count = unsafe Glibc.write(descriptor.number, rest.baseAddress, rest.count)
      if count > 0 {
        // A short write does not say why; the next write does.
        written += count
      } else if count == 0 || errno != EINTR {
        throw failure(.write, code: count == 0 ? ENOSPC : errno)
      }
    }
  }

  func sync() throws(JournalFileError) {
    while fdatasync(descriptor.number) != 0 {
      guard errno == EINTR else { throw failure(.sync) }
    }
  }

  func read(at offset: Int, into buffer: UnsafeMutableRawBufferPointer) throws(JournalFileError) -> Int {
    var done = 0
    while done < buffer.count {
      let rest = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[done...])
      let count = unsafe pread(descriptor.number, rest.baseAddress, rest.count, off_t(offset + done))
      if count == 0 { break }
      if count > 0 { done += count } else if errno != EINTR { throw failure(.read) }
    }
    return done
  }

  func truncate(to byteCount: Int) throws(JournalFileError) {
    guard ftruncate(descriptor.number, off_t(byteCount)) == 0 else { throw failure(.truncate) }
  }

  /// The descriptor is closed with its last reference.
  func close() {}
}
