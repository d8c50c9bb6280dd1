internal import PushJournal
internal import Support
internal import Synchronization

/// A disk that records every operation, so that each past state can be restored to the byte.
final class RecordedDisk: JournalFiles {
  enum Operation: Sendable {
    case create(String)
    case append(String, [UInt8])
    case cut(String, Int)
    case delete(String)
  }

  typealias Contents = [String: [UInt8]]

  let disk = SimulatedDisk()
  private let log = Mutex<[Operation]>([])
  var path: String { disk.path }
  var operations: [Operation] { log.withLock { $0 } }

  private func note(_ operation: Operation) { log.withLock { $0.append(operation) } }

  func takeLock() throws(JournalFileError) -> JournalLockAttempt { try disk.takeLock() }
  func list() throws(JournalFileError) -> [String] { try disk.list() }
  func syncDirectory() throws(JournalFileError) { try disk.syncDirectory() }

  func create(_ name: String) throws(JournalFileError) -> any JournalFile {
    let file = try disk.create(name)
    note(.create(name))
    return File(file, name, self)
  }

  func open(_ name: String, writable: Bool) throws(JournalFileError) -> any JournalFile {
    File(try disk.open(name, writable: writable), name, self)
  }

  func delete(_ name: String) throws(JournalFileError) {
    try disk.delete(name)
    note(.delete(name))
  }

  private final class File: JournalFile {
    private let file: any JournalFile
    private let name: String
    private let disk: RecordedDisk

    init(_ file: any JournalFile, _ name: String, _ disk: RecordedDisk) {
      (self.file, self.name, self.disk) = (file, name, disk)
    }

    func byteCount() throws(JournalFileError) -> Int { try file.byteCount() }
    func sync() throws(JournalFileError) { try file.sync() }
    func close() { file.close() }
    func read(at offset: Int, into buffer: UnsafeMutableRawBufferPointer) throws(JournalFileError) -> Int {
      try unsafe file.read(at: offset, into: buffer)
    }

    func append(_ bytes: UnsafeRawBufferPointer) throws(JournalFileError) {
      try unsafe file.append(bytes)
      disk.note(.append(name, unsafe Array(bytes)))
    }

    func truncate(to byteCount: Int) throws(JournalFileError) {
      try file.truncate(to: byteCount)
      disk.note(.cut(name, byteCount))
    }
  }

  /// Calls `body` with every state in which a killed process could have left the disk, in order:
  /// after each operation, and after each `step` bytes of a write.
  static func forEachState(
    of operations: [Operation], step: Int, _ body: (_ operation: Int, Contents) throws -> Void
  ) rethrows {
    var contents: Contents = [:]
    for (index, operation) in operations.enumerated() {
      switch operation {
      case .create(let name): contents[name] = []
      case .cut(let name, let byteCount): contents[name] = contents[name].map { Array($0.prefix(byteCount)) }
      case .delete(let name): contents[name] = nil
      case .append(let name, let bytes):
        for (offset, byte) in bytes.enumerated() {
          contents[name]?.append(byte)
          if offset == bytes.count - 1 || offset % step == step - 1 { try body(index, contents) }
        }
        continue
      }
      try body(index, contents)
    }
  }

  static func disk(_ contents: Contents) -> SimulatedDisk {
    let disk = SimulatedDisk()
    for (name, bytes) in contents { disk.put(name, bytes) }
    return disk
  }
}
