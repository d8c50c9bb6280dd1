internal import Foundation

/// A new file of a campaign, written in blocks.
final class SpoolFile {
  private let path: String
  private let file: FileHandle
  private var pending: [UInt8] = []

  private static let blockByteCount = 64 << 10

  /// Makes the file, or empties it.
  ///
  /// - Throws: ``Problem`` with 507, as the other calls.
  init(path: String) throws {
    self.path = path
    do {
      _ = FileManager.default.createFile(atPath: path, contents: nil, attributes: [.posixPermissions: 0o600])
      file = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
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
