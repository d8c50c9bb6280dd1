internal import Foundation

/// A file that is sent in blocks.
final class UploadedFile {
  private let handle: FileHandle
  private let path: String

  private static let blockByteCount = 64 << 10

  /// - Parameter path: `-` is standard input.
  /// - Throws: ``ServiceFailure``.
  init(_ path: String) throws {
    self.path = path
    do {
      handle = path == "-" ? .standardInput : try FileHandle(forReadingFrom: URL(filePath: path))
    } catch {
      throw ServiceFailure("\(path) cannot be read; check the path and its permissions.")
    }
  }

  /// - Returns: nil at the end of the file.
  func next() throws -> [UInt8]? {
    do {
      guard let data = try handle.read(upToCount: Self.blockByteCount), !data.isEmpty else { return nil }
      return Array(data)
    } catch {
      throw ServiceFailure("\(path) cannot be read to its end.")
    }
  }
}
