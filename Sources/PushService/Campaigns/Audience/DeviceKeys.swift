internal import Foundation

/// The keys of devices in a file, in ascending order, eight bytes each.
struct DeviceKeys: Sendable {
  let path: String

  private static let width = 8

  static func bytes(_ key: Int64) -> [UInt8] {
    let bits = UInt64(bitPattern: key)
    return (0..<width).map { UInt8(truncatingIfNeeded: bits >> (UInt64($0) * 8)) }
  }

  /// The keys behind a key, up to a limit.
  func next(after key: Int64, limit: Int) throws -> [Int64] {
    do {
      let file = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
      defer { try? file.close() }
      let count = Int(try file.seekToEnd()) / Self.width
      var (low, high) = (0, count)
      while low < high {
        let middle = (low + high) / 2
        guard let found = try keys(of: file, at: middle, count: 1).first else { break }
        if found <= key { low = middle + 1 } else { high = middle }
      }
      return try keys(of: file, at: low, count: limit)
    } catch {
      throw CampaignSpool.problem(path, error)
    }
  }

  func contains(_ key: Int64) throws -> Bool { try next(after: key - 1, limit: 1).first == key }

  private func keys(of file: FileHandle, at index: Int, count: Int) throws -> [Int64] {
    try file.seek(toOffset: UInt64(index * Self.width))
    let bytes = try file.read(upToCount: count * Self.width) ?? Data()
    return stride(from: 0, to: bytes.count / Self.width * Self.width, by: Self.width).map { start in
      var bits: UInt64 = 0
      for offset in 0..<Self.width { bits |= UInt64(bytes[bytes.startIndex + start + offset]) << UInt64(offset * 8) }
      return Int64(bitPattern: bits)
    }
  }
}
