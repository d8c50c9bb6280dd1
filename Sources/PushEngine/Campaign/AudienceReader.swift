internal import Glibc
internal import PushWire

/// Reads a token file block by block into chunks: no IO, no copy of the file, no allocation per line, the same result however the blocks are cut.
///
/// A file is one token per line, or CSV (see ``AudienceHeader``). Blank lines are skipped. A line that cannot be sent becomes an entry that says why.
@safe package struct AudienceReader: ~Copyable {
  /// 64 KiB: no line of a sensible file is longer, and a file that is none is not read into memory.
  package static let lineByteLimit = 1 << 16
  /// As much of a malformed line as a report shows; the size of the largest token.
  package static let textByteLimit = DeviceToken.byteCountLimit

  private let isCSV: Bool
  private let columnCount: Int
  private let tokenColumn: Int
  private let renderer: PayloadRenderer?
  private var record: AudienceRecord
  private var recordEnd: AudienceRecordEnd
  /// The beginning of a record whose end is in a later block.
  private let carry: UnsafeMutableRawPointer
  private var carryCount = 0
  /// A record has begun in an earlier block.
  private var isContinuing = false
  private var isSkippingOverlong = false
  /// The line on which the next record begins, from 1.
  private var line: UInt64

  /// - Parameter renderer: makes each entry's payload; nil when all get the same.
  package init(_ header: AudienceHeader, renderer: PayloadRenderer? = nil) {
    isCSV = header.isCSV
    columnCount = max(1, header.columns.count)
    tokenColumn = header.tokenColumn
    self.renderer = renderer
    record = AudienceRecord(columnLimit: columnCount)
    recordEnd = AudienceRecordEnd(isCSV: isCSV)
    unsafe carry = .allocate(byteCount: Self.lineByteLimit, alignment: 16)
    line = header.firstLine
  }

  deinit { unsafe carry.deallocate() }

  /// Reads what follows the header, up to the end of `block` or until `chunk` is full. Entries are added to what the chunk holds.
  ///
  /// - Returns: how many bytes of the block were used; fewer than there are only when the chunk is full.
  package mutating func read(_ block: UnsafeRawBufferPointer, into chunk: AudienceChunk) -> Int {
    precondition(chunk.payloadCapacity >= renderer?.byteLimit ?? 0, "a chunk without room for one payload")
    guard let base = block.baseAddress else { return 0 }
    var position = 0
    while position < block.count, hasRoom(chunk) {
      if isContinuing {
        position = unsafe continueRecord(block, from: position, into: chunk)
        continue
      }
      // The usual case: a whole line without quotes.
      let found = unsafe memchr(base + position, Int32(UInt8(ascii: "\n")), block.count - position)
      if let found = unsafe found {
        let end = unsafe UnsafeRawPointer(found) - base
        let bytes = unsafe UnsafeRawBufferPointer(start: base + position, count: end - position)
        if bytes.count <= Self.lineByteLimit, unsafe !isCSV || memchr(base + position, Int32(UInt8(ascii: "\"")), bytes.count) == nil {
          unsafe take(bytes, into: chunk)
          line += 1
          position = end + 1
          continue
        }
      }
      recordEnd = AudienceRecordEnd(isCSV: isCSV)
      if let end = unsafe recordEnd.find(block, from: position), !recordEnd.isOverlong {
        unsafe take(UnsafeRawBufferPointer(start: base + position, count: end - position), into: chunk)
        line += recordEnd.lineEnds
        position = end + 1
      } else {
        recordEnd = AudienceRecordEnd(isCSV: isCSV)
        isContinuing = true
        carryCount = 0
      }
    }
    return position
  }

  /// Reads the last line of a file that does not end with a line end. Call it after the last block.
  ///
  /// - Returns: false when the chunk is full: call again with the next one.
  package mutating func finish(into chunk: AudienceChunk) -> Bool {
    guard isContinuing else { return true }
    guard hasRoom(chunk) else { return false }
    if !isSkippingOverlong { unsafe take(UnsafeRawBufferPointer(start: carry, count: carryCount), into: chunk) }
    isContinuing = false
    isSkippingOverlong = false
    return true
  }

  static func isSpace(_ byte: UInt8) -> Bool { byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }
  /// A space, or the carriage return that a line end from other systems leaves behind.
  static func isBlank(_ byte: UInt8) -> Bool { isSpace(byte) || byte == UInt8(ascii: "\r") }

  private func hasRoom(_ chunk: AudienceChunk) -> Bool {
    guard chunk.count < chunk.entryLimit else { return false }
    guard let renderer else { return true }
    return chunk.payloadEnd + renderer.byteLimit <= chunk.payloadCapacity
  }

  private mutating func continueRecord(_ block: UnsafeRawBufferPointer, from start: Int, into chunk: AudienceChunk) -> Int {
    let end = unsafe recordEnd.find(block, from: start)
    let stop = end ?? block.count
    if !isSkippingOverlong {
      let count = min(stop - start, Self.lineByteLimit - carryCount)
      unsafe (carry + carryCount).copyMemory(from: UnsafeRawPointer(unsafe block.baseAddress ?? UnsafeRawPointer(carry)) + start, byteCount: count)
      carryCount += count
      if recordEnd.isOverlong {
        unsafe addText(UnsafeRawBufferPointer(start: carry, count: carryCount), .overlongLine, to: chunk)
        isSkippingOverlong = true
      }
    }
    guard end != nil else { return stop }
    if !isSkippingOverlong { unsafe take(UnsafeRawBufferPointer(start: carry, count: carryCount), into: chunk) }
    line += recordEnd.lineEnds
    isContinuing = false
    isSkippingOverlong = false
    return stop + 1
  }

  /// One record without its line end.
  private mutating func take(_ bytes: UnsafeRawBufferPointer, into chunk: AudienceChunk) {
    var count = bytes.count
    if count > 0, unsafe bytes[count - 1] == UInt8(ascii: "\r") { count -= 1 }
    let text = unsafe UnsafeRawBufferPointer(start: bytes.baseAddress, count: count)
    if isCSV {
      unsafe takeRow(text, into: chunk)
    } else {
      unsafe takeToken(text, into: chunk)
    }
  }

  @inline(__always)
  private func takeToken(_ text: UnsafeRawBufferPointer, into chunk: AudienceChunk) {
    let destination = unsafe UnsafeMutableRawBufferPointer(start: chunk.tokens + chunk.tokenEnd, count: Self.textByteLimit)
    do throws(DeviceTokenError) {
      let count = try unsafe DeviceToken.parse(text, into: destination)
      add(.ready, textCount: count, payloadCount: 0, to: chunk)
    } catch {
      if unsafe text.allSatisfy({ Self.isBlank($0) }) { return }
      unsafe addText(text, .malformedToken, to: chunk)
    }
  }

  private mutating func takeRow(_ text: UnsafeRawBufferPointer, into chunk: AudienceChunk) {
    if unsafe text.allSatisfy({ Self.isBlank($0) }) { return }
    guard unsafe record.split(text), record.count == columnCount else {
      unsafe addText(text, .malformedRow, to: chunk)
      return
    }
    let field = record[tokenColumn]
    let tokenText = unsafe UnsafeRawBufferPointer(rebasing: text[field.start..<field.end])
    let destination = unsafe UnsafeMutableRawBufferPointer(start: chunk.tokens + chunk.tokenEnd, count: Self.textByteLimit)
    let tokenCount: Int
    do throws(DeviceTokenError) {
      tokenCount = try unsafe DeviceToken.parse(tokenText, into: destination)
    } catch {
      unsafe addText(tokenText, .malformedToken, to: chunk)
      return
    }
    guard let renderer else {
      add(.ready, textCount: tokenCount, payloadCount: 0, to: chunk)
      return
    }
    let room = unsafe UnsafeMutableRawBufferPointer(start: chunk.payloads + chunk.payloadEnd, count: chunk.payloadCapacity - chunk.payloadEnd)
    switch unsafe renderer.render(record, of: text, into: room) {
    case .rendered(let count): add(.ready, textCount: tokenCount, payloadCount: count, to: chunk)
    case .tooLarge: add(.payloadTooLarge, textCount: tokenCount, payloadCount: 0, to: chunk)
    case .notUTF8: unsafe addText(tokenText, .malformedText, to: chunk)
    }
  }

  /// As much of `text` as a report shows, cut between characters.
  private func addText(_ text: UnsafeRawBufferPointer, _ kind: AudienceEntry.Kind, to chunk: AudienceChunk) {
    var count = min(text.count, Self.textByteLimit)
    if count < text.count {
      while count > 0, unsafe text[count] & 0xC0 == 0x80 { count -= 1 }
    }
    if count > 0, let source = text.baseAddress { unsafe (chunk.tokens + chunk.tokenEnd).copyMemory(from: source, byteCount: count) }
    add(kind, textCount: count, payloadCount: 0, to: chunk)
  }

  @inline(__always)
  private func add(_ kind: AudienceEntry.Kind, textCount: Int, payloadCount: Int, to chunk: AudienceChunk) {
    let entry = AudienceEntry(
      line: line, payloadOffset: UInt32(truncatingIfNeeded: chunk.payloadEnd), payloadByteCount: UInt32(truncatingIfNeeded: payloadCount),
      tokenOffset: UInt32(truncatingIfNeeded: chunk.tokenEnd), tokenByteCount: UInt8(truncatingIfNeeded: textCount), kind: kind)
    unsafe (chunk.entries + chunk.count).initialize(to: entry)
    chunk.count += 1
    chunk.readyCount += kind == .ready ? 1 : 0
    chunk.tokenEnd += textCount
    chunk.payloadEnd += payloadCount
  }
}
