internal import PushJournal

/// A journal's directory in memory, so that a journal is measured without the disk.
final class MemoryFiles: JournalFiles {
  let path = "memory"
  // Sync: the journal is run by hand, so everything happens on one thread.
  private nonisolated(unsafe) var files: [String: MemoryFile] = [:]
  /// False: what is written is counted and discarded.
  private let keepsContent: Bool

  init(keepsContent: Bool) { self.keepsContent = keepsContent }

  func takeLock() throws(JournalFileError) -> JournalLockAttempt { .taken(Lock()) }
  func list() throws(JournalFileError) -> [String] { unsafe Array(files.keys) }

  func create(_ name: String) throws(JournalFileError) -> any JournalFile {
    let file = MemoryFile(keepsContent: keepsContent)
    unsafe files[name] = file
    return file
  }

  func open(_ name: String, writable: Bool) throws(JournalFileError) -> any JournalFile {
    guard let file = unsafe files[name] else { throw JournalFileError(.open, path: name, code: 2) }
    return file
  }

  func delete(_ name: String) throws(JournalFileError) { unsafe files[name] = nil }
  func syncDirectory() throws(JournalFileError) {}

  private final class Lock: JournalLock { func release() {} }
}

private final class MemoryFile: JournalFile {
  // Sync: as in `MemoryFiles`.
  private nonisolated(unsafe) var content: [UInt8] = []
  private nonisolated(unsafe) var length = 0
  private let keepsContent: Bool

  init(keepsContent: Bool) { self.keepsContent = keepsContent }

  func byteCount() throws(JournalFileError) -> Int { unsafe length }

  func append(_ bytes: UnsafeRawBufferPointer) throws(JournalFileError) {
    unsafe length += bytes.count
    if keepsContent { unsafe content += bytes }
  }

  func sync() throws(JournalFileError) {}

  func read(at offset: Int, into buffer: UnsafeMutableRawBufferPointer) throws(JournalFileError) -> Int {
    let count = unsafe max(0, min(buffer.count, content.count - offset))
    unsafe content.withUnsafeBytes {
      unsafe buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[offset..<offset + count]))
    }
    return count
  }

  func truncate(to byteCount: Int) throws(JournalFileError) { unsafe content.removeSubrange(byteCount...) }
  func close() {}
}
