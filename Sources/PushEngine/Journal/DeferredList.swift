package import PushJournal
internal import Synchronization

/// What lists could not take while they were away: in a file beside the journal's segments, so that
/// the journal need not wait for them.
///
/// The file exists only while something is in it. Each entry has its length and a checksum: only
/// the last one can be incomplete, and whoever wrote it was not told that it is durable.
package final class DeferredList: Sendable {
  private static let name = "deferred"
  /// More than any entry has. Another length was written by somebody else.
  private static let entryLimit = 1 << 30
  private static let headerByteCount = 12

  private let files: any JournalFiles
  private let file = Mutex<(any JournalFile)?>(nil)

  package init(_ files: any JournalFiles) { self.files = files }

  /// - Parameter directory: of the journal. It exists.
  package convenience init(directory: String) throws(JournalProblem) {
    do throws(JournalFileError) { self.init(try PosixFiles(existing: directory)) } catch {
      throw JournalProblem(.file(error))
    }
  }

  /// What an earlier process left, in its order.
  package func entries() throws(UnsyncedList) -> [[UInt8]] {
    try wrapping { () throws(JournalFileError) in
      guard try files.list().contains(Self.name) else { return [] }
      let file = try files.open(Self.name, writable: false)
      defer { file.close() }
      var bytes = [UInt8](repeating: 0, count: try file.byteCount())
      let count = unsafe bytes.withUnsafeMutableBytes { buffer in
        Result { () throws(JournalFileError) in try unsafe file.read(at: 0, into: buffer) }
      }
      bytes.removeLast(bytes.count - (try count.get()))
      return Self.entries(in: bytes)
    }
  }

  private static func entries(in bytes: [UInt8]) -> [[UInt8]] {
    var entries: [[UInt8]] = []
    var rest = bytes[...]
    while rest.count >= headerByteCount {
      let count = rest.prefix(4).reversed().reduce(0) { $0 << 8 | Int($1) }
      let sum = rest.dropFirst(4).prefix(8).reversed().reduce(0) { $0 << 8 | UInt64($1) }
      let body = rest.dropFirst(headerByteCount)
      guard count <= entryLimit, body.count >= count, checksum(body.prefix(count)) == sum else { break }
      entries.append(Array(body.prefix(count)))
      rest = body.dropFirst(count)
    }
    return entries
  }

  /// FNV-1a, which is enough to tell a write that was cut short.
  private static func checksum(_ bytes: ArraySlice<UInt8>) -> UInt64 {
    bytes.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x0000_0100_0000_01B3 }
  }

  /// Adds entries. They are durable when this returns.
  package func append(_ entries: [[UInt8]]) throws(UnsyncedList) {
    guard !entries.isEmpty else { return }
    var bytes: [UInt8] = []
    for entry in entries {
      bytes += (0..<4).map { UInt8(truncatingIfNeeded: entry.count >> ($0 * 8)) }
      let sum = Self.checksum(entry[...])
      bytes += (0..<8).map { UInt8(truncatingIfNeeded: sum >> ($0 * 8)) }
      bytes += entry
    }
    try wrapping { () throws(JournalFileError) in
      try file.withLock { file throws(JournalFileError) in
        var open = file
        if open == nil { open = try files.create(Self.name) }
        let written = unsafe bytes.withUnsafeBytes { buffer in
          Result { () throws(JournalFileError) in try unsafe open?.append(buffer) }
        }
        _ = try written.get()
        try open?.sync()
        if file == nil { try files.syncDirectory() }
        file = open
      }
    }
  }

  /// The lists have all of it.
  package func clear() throws(UnsyncedList) {
    try wrapping { () throws(JournalFileError) in
      try file.withLock { file throws(JournalFileError) in
        guard try files.list().contains(Self.name) else { return }
        try files.delete(Self.name)
        try files.syncDirectory()
        file?.close()
        file = nil
      }
    }
  }

  private func wrapping<Result>(
    _ body: () throws(JournalFileError) -> Result
  ) throws(UnsyncedList) -> Result {
    do throws(JournalFileError) { return try body() } catch { throw self.error(error.code) }
  }

  /// - Parameter code: the `errno`.
  package func error(_ code: Int32) -> UnsyncedList { UnsyncedList(path: "\(files.path)/\(Self.name)", code: code) }
}
