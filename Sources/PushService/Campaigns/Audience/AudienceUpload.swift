internal import Foundation
internal import HTTPTypes
internal import PushEngine
package import PushStore

/// Writes an uploaded audience into a file, as it comes in: CSV as it is, NDJSON as rows of CSV.
///
/// A beginning that the campaign could not be sent with is refused before the rest comes. Lines are
/// counted as the sender counts them. An upload that is cut off ends with its last whole
/// line, so that another upload can continue there.
package struct AudienceUpload {
  private enum Format: String {
    case csv
    case ndjson
  }

  /// What can be kept: whole lines.
  package private(set) var progress: StoredUpload
  private let path: String
  private let file: FileHandle
  private let rows: AudienceRows
  private var format: Format?
  /// Lines that are there already.
  private var skipCount: Int64
  private var pending: [UInt8] = []
  /// Where in the file `pending` begins.
  private var writtenByteCount: Int64
  /// The beginning of a line of NDJSON.
  private var line: [UInt8] = []
  private var isLineTooLong = false
  package private(set) var unsyncedByteCount = 0

  private static let blockByteCount = 256 << 10
  /// The first bytes, while they do not show the format.
  private var head: [UInt8] = []
  /// How many of them were looked at.
  private var examinedByteCount = 0

  /// - Parameters:
  ///   - progress: of earlier uploads, which this one continues.
  ///   - skipCount: the number of lines at its beginning that are stored already.
  /// - Throws: ``Problem`` with 507.
  package init(path: String, progress: StoredUpload, skipping skipCount: Int64, rows: AudienceRows) throws {
    (self.path, self.progress, self.skipCount, self.rows) = (path, progress, skipCount, rows)
    self.progress.isComplete = false
    format = Format(rawValue: progress.format)
    writtenByteCount = progress.byteCount
    do {
      if !FileManager.default.fileExists(atPath: path) {
        _ = FileManager.default.createFile(atPath: path, contents: nil, attributes: [.posixPermissions: 0o600])
      }
      file = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
      try file.truncate(atOffset: UInt64(progress.byteCount))
      try file.seek(toOffset: UInt64(progress.byteCount))
    } catch {
      throw CampaignSpool.problem(path, error)
    }
  }

  /// Of the file, with what is not written yet.
  package var byteCount: Int64 { writtenByteCount + Int64(pending.count) }

  /// Lines of NDJSON become rows below a header, and values can have line ends.
  static func numbersRows(_ upload: StoredUpload) -> Bool { upload.format == Format.ndjson.rawValue }

  package mutating func take(_ bytes: some Collection<UInt8>) throws {
    guard let format else {
      head += bytes
      // Not for each byte that comes.
      guard head.count >= 2 * examinedByteCount || head.count > AudienceReader.lineByteLimit else { return }
      examinedByteCount = head.count
      guard let format = try headFormat(isWhole: false) else { return }
      return try begin(format)
    }
    switch format {
    case .csv: takeLines(bytes[...])
    case .ndjson: for byte in bytes { takeByte(byte) }
    }
  }

  /// Writes what was taken, once it is a block. ``take(_:)`` alone does not wait for the disk.
  package mutating func flushFullBlock() throws { if pending.count >= Self.blockByteCount { try flush() } }

  /// - Returns: nil when more bytes are needed.
  /// - Throws: ``Problem`` with 422.
  private func headFormat(isWhole: Bool) throws -> Format? {
    if AudienceHeader.isJSON(head) == true { return .ndjson }
    let header: AudienceHeader?
    do throws(AudienceFormatError) { header = try AudienceHeader.detect(head, isWhole: isWhole) } catch .empty {
      // Rows may come with another upload.
      return .csv
    } catch {
      throw Problem(
        .unprocessableContent, "Not an audience", "\(AudienceError(path: nil, problem: .format(error)))",
        action: "Upload the audience again, from its first line on.")
    }
    guard let header else { return nil }
    try rows.check(header)
    return .csv
  }

  private mutating func begin(_ format: Format) throws {
    self.format = format
    progress.format = format.rawValue
    if format == .ndjson {
      pending = rows.header
      progress.byteCount += Int64(pending.count)
    }
    // Blank lines have numbers too.
    try take(exchange(&head, with: []))
  }

  private mutating func takeLines(_ bytes: some Collection<UInt8>) {
    var rest = bytes[...]
    while skipCount > 0 {
      guard let end = rest.firstIndex(of: UInt8(ascii: "\n")) else { return }
      rest = rest[rest.index(after: end)...]
      skipCount -= 1
    }
    var count: Int64 = 0
    for byte in rest {
      pending.append(byte)
      if byte == UInt8(ascii: "\n") {
        count += 1
        progress.byteCount = writtenByteCount + Int64(pending.count)
      }
    }
    progress.lineCount += count
  }

  private mutating func takeByte(_ byte: UInt8) {
    guard byte == UInt8(ascii: "\n") else {
      if line.count < AudienceReader.lineByteLimit { line.append(byte) } else { isLineTooLong = true }
      return
    }
    endLine()
  }

  private mutating func endLine() {
    defer {
      line.removeAll(keepingCapacity: true)
      isLineTooLong = false
    }
    guard skipCount == 0 else {
      skipCount -= 1
      return
    }
    rows.append(isLineTooLong ? nil : line, to: &pending)
    progress.lineCount += 1
    progress.byteCount = writtenByteCount + Int64(pending.count)
  }

  private mutating func flush() throws {
    guard !pending.isEmpty else { return }
    do { try file.write(contentsOf: Data(pending)) } catch { throw CampaignSpool.problem(path, error) }
    writtenByteCount += Int64(pending.count)
    unsyncedByteCount += pending.count
    pending.removeAll(keepingCapacity: true)
  }

  /// Makes durable what has come in. ``progress`` may be stored then.
  package mutating func sync() throws {
    try flush()
    do { try file.synchronize() } catch { throw CampaignSpool.problem(path, error) }
    unsyncedByteCount = 0
  }

  /// The upload has ended as its sender wanted.
  package mutating func complete() throws {
    if format == nil, !head.isEmpty { try begin(try headFormat(isWhole: true) ?? .csv) }
    switch format {
    case .csv? where writtenByteCount + Int64(pending.count) > progress.byteCount: takeLines([UInt8(ascii: "\n")])
    case .ndjson? where !line.isEmpty: endLine()
    default: break
    }
    try sync()
    progress.isComplete = true
  }

  /// The upload was cut off: the rest of its last line is dropped.
  package mutating func cut() throws {
    try sync()
    do { try file.truncate(atOffset: UInt64(progress.byteCount)) } catch { throw CampaignSpool.problem(path, error) }
  }
}
