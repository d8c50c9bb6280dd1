internal import Foundation

/// A file of a campaign, written in blocks.
final class SpoolFile {
  private let path: String
  private let file: FileHandle
  private var pending: [UInt8] = []

  private static let blockByteCount = 64 << 10

  /// Makes the file, or empties it.
  ///
  /// - Parameter byteCount: of its beginning, which stays.
  /// - Throws: ``Problem`` with 507, as the other calls.
  init(path: String, keeping byteCount: Int64 = 0) throws {
    self.path = path
    do {
      if byteCount == 0 {
        _ = FileManager.default.createFile(atPath: path, contents: nil, attributes: [.posixPermissions: 0o600])
      }
      file = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
      try file.truncate(atOffset: UInt64(byteCount))
      try file.seek(toOffset: UInt64(byteCount))
    } catch {
      throw CampaignSpool.problem(path, error)
    }
  }

  func append(_ text: String) throws { try append(Array(text.utf8)) }

  func append(_ bytes: [UInt8]) throws {
    pending += bytes
    if pending.count >= Self.blockByteCount { try flush() }
  }

  private func flush() throws {
    do { try file.write(contentsOf: Data(pending)) } catch { throw CampaignSpool.problem(path, error) }
    pending.removeAll(keepingCapacity: true)
  }

  func sync() throws {
    try flush()
    do { try file.synchronize() } catch { throw CampaignSpool.problem(path, error) }
  }
}

/// Reads the rows of a list, some blocks at a time.
package final class SpoolReading {
  private let path: String
  private let file: FileHandle
  private var isHeader = true

  private static let byteCountLimit = 64 << 10

  /// Nil: there is no list.
  package init?(path: String) {
    guard let file = FileHandle(forReadingAtPath: path) else { return nil }
    (self.path, self.file) = (path, file)
  }

  deinit { try? file.close() }

  /// The next bytes behind the header, which is shorter than a block; nil at the end.
  ///
  /// - Throws: ``Problem`` with 507.
  package func next() throws -> [UInt8]? {
    do {
      while let block = try file.read(upToCount: Self.byteCountLimit), !block.isEmpty {
        var rest = block[...]
        if isHeader, let end = rest.firstIndex(of: UInt8(ascii: "\n")) { rest = rest[(end + 1)...] }
        isHeader = false
        if !rest.isEmpty { return Array(rest) }
      }
      return nil
    } catch { throw CampaignSpool.problem(path, error) }
  }
}
