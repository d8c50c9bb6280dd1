internal import Glibc
internal import PushTransport
internal import PushWire

/// Reads a token file block by block into chunks: no IO, no copy of the file, no allocation per
/// line. How the blocks are cut makes no difference.
///
/// A file has one token per line, or is CSV (see ``AudienceHeader``). Blank lines are skipped. A
/// line that cannot be sent becomes an entry with the reason.
///
/// A CSV record may span lines only if it is valid. If it is not, has more than 64 KiB, or is open
/// at the end of the file, its first line becomes one malformed entry, and reading continues with
/// the next line. So a quote that is never closed hides no other line.
@safe package struct AudienceReader: ~Copyable {
  /// 64 KiB. No line of a valid file is longer, and other files are not read into memory.
  package static let lineByteLimit = 1 << 16
  /// Of a line that is the digits of a token of 32 bytes and nothing else.
  package static let bareLineByteCount = 2 * TokenBytes.usualByteCount + 1
  /// 1 MiB. A file with a longer line is not a token file, and reading ends there
  /// (``endlessLine``).
  package static let skippedByteLimit = 1 << 20
  /// How much of a malformed line a report shows: the size of the largest token.
  package static let textByteLimit = TokenBytes.byteCountLimit

  private let isCSV: Bool
  private let columnCount: Int
  private let tokenColumn: Int
  /// The columns of own headers, if they are read and exist.
  private let identifierColumn: Int?
  private let collapseColumn: Int?
  private let renderer: PayloadRenderer?
  private let numbersRows: Bool
  private let selection: RowSelection?
  private var record: AudienceRecord
  private var recordEnd: AudienceRecordEnd
  /// The bytes described by ``carried``, from an earlier block or an earlier part of this one.
  private let carry: UnsafeMutableRawPointer
  private var carryCount = 0
  private var carried = Carried.nothing
  /// Where the carried lines begin that have to be read.
  private var carryStart = 0
  /// The line on which the next record begins, from 1.
  private var line: UInt64
  /// How much of an overlong line was skipped.
  private var skippedByteCount = 0
  /// The line with more than ``skippedByteLimit`` bytes, if there is one. Nothing after it is read.
  package private(set) var endlessLine: UInt64?

  private enum Carried {
    case nothing
    /// The beginning of a record whose end has not been read.
    case record
    /// Nothing, but the rest of an overlong line has to be skipped.
    case overlongLine
    /// Lines that were read as part of a record that turned out invalid.
    case lines
  }

  /// - Parameters:
  ///   - renderer: Makes each entry's payload; nil when all get the same.
  ///   - readsHeaders: True: the columns `apns-id` and `collapse-id` set a notification's own
  ///     headers where they are not empty. False: they are ordinary columns.
  ///   - firstLine: The number of the first line, if it is not the one after the header.
  ///   - numbersRows: A row has one number, however many lines it spans.
  ///   - selection: Other lines are passed over, as if they were blank.
  package init(
    _ header: AudienceHeader, renderer: PayloadRenderer? = nil, readsHeaders: Bool = false, firstLine: UInt64? = nil,
    numbersRows: Bool = false, selection: RowSelection? = nil
  ) {
    isCSV = header.isCSV
    columnCount = max(1, header.columns.count)
    tokenColumn = header.tokenColumn
    identifierColumn = readsHeaders ? header.identifierColumn : nil
    collapseColumn = readsHeaders ? header.collapseColumn : nil
    self.renderer = renderer
    self.numbersRows = numbersRows
    self.selection = selection
    record = AudienceRecord(columnLimit: columnCount)
    recordEnd = AudienceRecordEnd(isCSV: isCSV)
    unsafe carry = .allocate(byteCount: Self.lineByteLimit, alignment: 16)
    line = firstLine ?? header.firstLine
  }

  /// Where another reader can begin and give the same entries as this one from here on: this many
  /// bytes before the end of what this one has read, at a line with this number. Nil in the middle
  /// of an overlong line.
  package var restart: (carriedByteCount: Int, line: UInt64)? {
    switch carried {
    case .nothing: (0, line)
    case .record: (carryCount, line)
    case .lines: (carryCount - carryStart, line)
    case .overlongLine: nil
    }
  }

  deinit { unsafe carry.deallocate() }

  /// Reads what follows the header, up to the end of `block` or until `chunk` is full. Entries are
  /// added to those in the chunk.
  ///
  /// - Returns: How many bytes of the block were used; not all only when the chunk is full. See
  ///   also ``hasLines``.
  package mutating func read(_ block: UnsafeRawBufferPointer, into chunk: AudienceChunk) -> Int {
    precondition(chunk.payloadCapacity >= renderer?.byteLimit ?? 0, "a chunk without room for one payload")
    var position = 0
    while hasRoom(chunk) {
      if carried == .lines {
        readCarriedLine(into: chunk)
        continue
      }
      if carried == .nothing { position = unsafe takeBareLines(block, from: position, into: chunk) }
      guard position < block.count, hasRoom(chunk) else { break }
      if carried != .nothing {
        position = unsafe continueRecord(block, from: position, into: chunk)
      } else if let next = unsafe takeRecord(block, at: position, into: chunk) {
        position = next
      } else {
        recordEnd = AudienceRecordEnd(isCSV: isCSV)
        carried = .record
        carryCount = 0
      }
    }
    return position
  }

  /// Lines of an earlier block have to be read because the chunk was full. They need a call of
  /// ``read(_:into:)``, but no further block.
  package var hasLines: Bool { carried == .lines }

  /// Reads the last line of a file without a line end there. Call it after the last block.
  ///
  /// - Returns: False when the chunk is full: call again with the next one.
  package mutating func finish(into chunk: AudienceChunk) -> Bool {
    while true {
      switch carried {
      case .nothing: return true
      case .overlongLine: carried = .nothing
      case .lines:
        guard hasRoom(chunk) else { return false }
        readCarriedLine(into: chunk)
      case .record:
        guard hasRoom(chunk) else { return false }
        carryOn(from: unsafe settle(carriedBytes, into: chunk) + 1)
      }
    }
  }

  static func isSpace(_ byte: UInt8) -> Bool { byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }
  /// A space, or the carriage return of a CR LF line end.
  static func isBlank(_ byte: UInt8) -> Bool { isSpace(byte) || byte == UInt8(ascii: "\r") }

  private func hasRoom(_ chunk: AudienceChunk) -> Bool {
    guard chunk.count < chunk.entryLimit else { return false }
    guard let renderer else { return true }
    return chunk.payloadEnd + renderer.byteLimit <= chunk.payloadCapacity
  }

  private var carriedBytes: UnsafeRawBufferPointer { unsafe UnsafeRawBufferPointer(start: carry, count: carryCount) }

  /// Reads lines from `start` on, as long as each is the digits of a token of the usual size and
  /// nothing else. Returns where the first other line begins, or the chunk was full.
  private mutating func takeBareLines(
    _ bytes: UnsafeRawBufferPointer, from start: Int, into chunk: AudienceChunk
  ) -> Int {
    let (digitCount, lineByteCount) = (Self.bareLineByteCount - 1, Self.bareLineByteCount)
    guard !isCSV, selection == nil, hasRoom(chunk), let base = bytes.baseAddress else { return start }
    let limit = min(chunk.entryLimit - chunk.count, (bytes.count - start) / lineByteCount)
    var count = 0
    while count < limit {
      let text = unsafe base + (start + count * lineByteCount)
      guard unsafe text.load(fromByteOffset: digitCount, as: UInt8.self) == UInt8(ascii: "\n"),
        unsafe TokenBytes.parseBare(text, count: digitCount, into: chunk.place(ofPlain: count))
      else { break }
      count += 1
    }
    chunk.append(plainCount: count, line: line)
    line += UInt64(count)
    return start + count * lineByteCount
  }

  /// The tokens of lines with nothing but the digits of a token of 32 bytes; nil unless all are
  /// such lines.
  package static func bareTokens(_ lines: [UInt8]) -> [UInt8]? {
    guard lines.count % bareLineByteCount == 0 else { return nil }
    var tokens: [UInt8] = []
    tokens.reserveCapacity(lines.count / bareLineByteCount * TokenBytes.usualByteCount)
    for start in stride(from: 0, to: lines.count, by: bareLineByteCount) {
      let end = start + bareLineByteCount - 1
      guard lines[end] == UInt8(ascii: "\n") else { return nil }
      for place in stride(from: start, to: end, by: 2) {
        guard let high = TokenBytes.nibble(lines[place]), let low = TokenBytes.nibble(lines[place + 1]) else {
          return nil
        }
        tokens.append(high << 4 | low)
      }
    }
    return tokens
  }

  /// Reads the record that begins at `position`. Returns where the next one begins; nil if this one
  /// does not end in `bytes`, or is too long.
  @inline(__always)
  private mutating func takeRecord(_ bytes: UnsafeRawBufferPointer, at position: Int, into chunk: AudienceChunk) -> Int?
  {
    guard let base = bytes.baseAddress else { return nil }
    // The usual case is a complete line without quotes.
    let found = unsafe memchr(base + position, Int32(UInt8(ascii: "\n")), bytes.count - position)
    if let found = unsafe found {
      let end = unsafe UnsafeRawPointer(found) - base
      let text = unsafe UnsafeRawBufferPointer(start: base + position, count: end - position)
      if text.count <= Self.lineByteLimit,
        unsafe !isCSV || memchr(base + position, Int32(UInt8(ascii: "\"")), text.count) == nil
      {
        unsafe take(text, into: chunk)
        line += 1
        return end + 1
      }
    }
    return unsafe takeQuoted(bytes, at: position, into: chunk)
  }

  @inline(never)
  private mutating func takeQuoted(_ bytes: UnsafeRawBufferPointer, at position: Int, into chunk: AudienceChunk) -> Int?
  {
    recordEnd = AudienceRecordEnd(isCSV: isCSV)
    let reach = unsafe UnsafeRawBufferPointer(
      rebasing: bytes[position..<min(bytes.count, position + Self.lineByteLimit + 1)])
    if let end = unsafe recordEnd.find(reach, from: 0) {
      return unsafe position + settle(UnsafeRawBufferPointer(rebasing: reach[..<end]), into: chunk) + 1
    }
    guard recordEnd.isOverlong, let end = unsafe Self.lineEnd(reach) else { return nil }
    return unsafe position + takeFirstLine(reach, end: end, into: chunk) + 1
  }

  /// Continues a record, or an overlong line, that an earlier block began. Returns the offset after
  /// it.
  private mutating func continueRecord(
    _ block: UnsafeRawBufferPointer, from start: Int, into chunk: AudienceChunk
  ) -> Int {
    let rest = unsafe UnsafeRawBufferPointer(rebasing: block[start...])
    if carried == .overlongLine {
      let end = unsafe Self.lineEnd(rest)
      skippedByteCount += end ?? rest.count
      if skippedByteCount > Self.skippedByteLimit { endlessLine = endlessLine ?? line }
      guard let end, endlessLine == nil else { return block.count }
      carried = .nothing
      line += 1
      return start + end + 1
    }
    // One byte more than there is room for shows that the record is too long.
    let reach = unsafe UnsafeRawBufferPointer(rebasing: rest.prefix(Self.lineByteLimit + 1 - carryCount))
    let end = unsafe recordEnd.find(reach, from: 0)
    let count = min(end ?? reach.count, Self.lineByteLimit - carryCount)
    if let source = reach.baseAddress { unsafe (carry + carryCount).copyMemory(from: source, byteCount: count) }
    carryCount += count
    if end != nil {
      let used = unsafe settle(carriedBytes, into: chunk)
      let isWhole = used == carryCount
      carryOn(from: used + 1)
      // Otherwise the line end belongs to the last of the carried lines.
      return start + count + (isWhole ? 1 : 0)
    }
    guard recordEnd.isOverlong else { return start + count }
    if let end = unsafe Self.lineEnd(carriedBytes) {
      carryOn(from: unsafe takeFirstLine(carriedBytes, end: end, into: chunk) + 1)
    } else if unsafe reach[count] == UInt8(ascii: "\n") {
      // A line of the maximum length, with an open quote.
      _ = unsafe takeFirstLine(carriedBytes, end: carryCount, into: chunk)
      carried = .nothing
      return start + count + 1
    } else {
      unsafe addText(carriedBytes, .overlongLine, to: chunk)
      carried = .overlongLine
      skippedByteCount = carryCount
    }
    return start + count
  }

  /// The carried bytes from `start` on are lines that have to be read.
  private mutating func carryOn(from start: Int) {
    carryStart = start
    carried = start < carryCount ? .lines : .nothing
  }

  private mutating func readCarriedLine(into chunk: AudienceChunk) {
    if let next = unsafe takeRecord(carriedBytes, at: carryStart, into: chunk) {
      carryOn(from: next)
    } else {
      // Its end is in the block. `recordEnd` knows the state at its beginning.
      carryCount -= carryStart
      unsafe _ = memmove(carry, carry + carryStart, carryCount)
      carried = .record
    }
  }

  /// Takes a complete record without its line end, or only its first line if it spans several and
  /// is invalid. Returns how many bytes it took.
  private mutating func settle(_ bytes: UnsafeRawBufferPointer, into chunk: AudienceChunk) -> Int {
    if isCSV, let end = unsafe Self.lineEnd(bytes),
      unsafe !(record.split(Self.trimmed(bytes)) && record.count == columnCount)
    {
      return unsafe takeFirstLine(bytes, end: end, into: chunk)
    }
    unsafe take(bytes, into: chunk)
    line += numbersRows ? 1 : recordEnd.lineEnds
    return bytes.count
  }

  private mutating func takeFirstLine(_ bytes: UnsafeRawBufferPointer, end: Int, into chunk: AudienceChunk) -> Int {
    unsafe take(UnsafeRawBufferPointer(rebasing: bytes[..<end]), into: chunk)
    line += 1
    return end
  }

  private static func lineEnd(_ bytes: UnsafeRawBufferPointer) -> Int? {
    guard let base = bytes.baseAddress, let found = unsafe memchr(base, Int32(UInt8(ascii: "\n")), bytes.count) else {
      return nil
    }
    return unsafe UnsafeRawPointer(found) - base
  }

  /// Takes one record without its line end.
  private mutating func take(_ bytes: UnsafeRawBufferPointer, into chunk: AudienceChunk) {
    let text = unsafe Self.trimmed(bytes)
    if isCSV {
      unsafe takeRow(text, into: chunk)
    } else {
      unsafe takeToken(text, into: chunk)
    }
  }

  /// Removes the carriage return of a CR LF line end.
  @inline(__always)
  private static func trimmed(_ bytes: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
    var count = bytes.count
    if count > 0, unsafe bytes[count - 1] == UInt8(ascii: "\r") { count -= 1 }
    return unsafe UnsafeRawBufferPointer(start: bytes.baseAddress, count: count)
  }

  @inline(__always)
  private func takeToken(_ text: UnsafeRawBufferPointer, into chunk: AudienceChunk) {
    guard unsafe !text.isEmpty else { return }
    if let selection, unsafe !selection.contains(UnsafeRawBufferPointer(rebasing: text[..<0])) { return }
    let destination = unsafe UnsafeMutableRawBufferPointer(
      start: chunk.tokens + chunk.tokenEnd, count: Self.textByteLimit)
    do throws(DeviceTokenError) {
      let count = try unsafe TokenBytes.parse(text, into: destination)
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
    if let selection {
      let field = selection.column.map { record[$0] }
      let value = unsafe UnsafeRawBufferPointer(rebasing: text[(field?.start ?? 0)..<(field?.end ?? 0)])
      guard unsafe selection.contains(value) else { return }
    }
    let field = record[tokenColumn]
    let tokenText = unsafe UnsafeRawBufferPointer(rebasing: text[field.start..<field.end])
    let destination = unsafe UnsafeMutableRawBufferPointer(
      start: chunk.tokens + chunk.tokenEnd, count: Self.textByteLimit)
    let tokenCount: Int
    do throws(DeviceTokenError) {
      tokenCount = try unsafe TokenBytes.parse(tokenText, into: destination)
    } catch {
      unsafe addText(tokenText, .malformedToken, to: chunk)
      return
    }
    if identifierColumn != nil || collapseColumn != nil {
      return unsafe takePersonal(text, tokenText: tokenText, tokenCount: tokenCount, into: chunk)
    }
    guard let renderer else {
      add(.ready, textCount: tokenCount, payloadCount: 0, to: chunk)
      return
    }
    let room = unsafe UnsafeMutableRawBufferPointer(
      start: chunk.payloads + chunk.payloadEnd, count: chunk.payloadCapacity - chunk.payloadEnd)
    switch unsafe renderer.render(record, of: text, into: room) {
    case .rendered(let count): add(.ready, textCount: tokenCount, payloadCount: count, to: chunk)
    case .tooLarge: add(.payloadTooLarge, textCount: tokenCount, payloadCount: 0, to: chunk)
    case .notUTF8: unsafe addText(tokenText, .malformedText, to: chunk)
    }
  }

  /// Takes a row with own headers, whose token has been read.
  private func takePersonal(
    _ text: UnsafeRawBufferPointer, tokenText: UnsafeRawBufferPointer, tokenCount: Int, into chunk: AudienceChunk
  ) {
    var identifier: APNSIdentifier?
    if let field = identifierColumn.map({ record[$0] }), field.start < field.end {
      identifier = unsafe APNSIdentifier(parsing: UnsafeRawBufferPointer(rebasing: text[field.start..<field.end]))
      guard identifier != nil else {
        return add(.malformedIdentifier, textCount: tokenCount, payloadCount: 0, to: chunk)
      }
    }
    var place = unsafe chunk.tokens + chunk.tokenEnd + tokenCount
    if let identifier {
      unsafe RingRecord.OwnHeaders.write(identifier, to: place)
      unsafe place += RingRecord.OwnHeaders.identifierByteCount
    }
    var collapseCount = 0
    if let field = collapseColumn.map({ record[$0] }), field.start < field.end {
      guard let count = unsafe Self.copyHeaderValue(field, of: text, to: place) else {
        return add(.malformedCollapseIdentifier, textCount: tokenCount, payloadCount: 0, to: chunk)
      }
      collapseCount = count
    }
    var payloadCount = 0
    if let renderer {
      let room = unsafe UnsafeMutableRawBufferPointer(
        start: chunk.payloads + chunk.payloadEnd, count: chunk.payloadCapacity - chunk.payloadEnd)
      switch unsafe renderer.render(record, of: text, into: room) {
      case .rendered(let count): payloadCount = count
      case .tooLarge: return add(.payloadTooLarge, textCount: tokenCount, payloadCount: 0, to: chunk)
      case .notUTF8: return unsafe addText(tokenText, .malformedText, to: chunk)
      }
    }
    let code = RingRecord.OwnHeaders.code(hasIdentifier: identifier != nil, collapseIdentifierByteCount: collapseCount)
    add(.ready, textCount: tokenCount, headersCode: code, payloadCount: payloadCount, to: chunk)
  }

  /// Copies a field without the second of each pair of quotes. Nil unless it can be a header's
  /// value: printable ASCII without spaces at the ends, at most 64 bytes.
  private static func copyHeaderValue(
    _ field: AudienceRecord.Field, of text: UnsafeRawBufferPointer, to place: UnsafeMutableRawPointer
  ) -> Int? {
    var count = 0
    var position = field.start
    while position < field.end {
      let byte = unsafe text[position]
      guard (0x20...0x7E).contains(byte), count < RingRecord.OwnHeaders.collapseIdentifierByteCountLimit else {
        return nil
      }
      unsafe place.storeBytes(of: byte, toByteOffset: count, as: UInt8.self)
      count += 1
      position += field.isQuoted && byte == UInt8(ascii: "\"") ? 2 : 1
    }
    guard unsafe place.load(as: UInt8.self) != 0x20,
      unsafe place.load(fromByteOffset: count - 1, as: UInt8.self) != 0x20
    else { return nil }
    return count
  }

  /// Adds as much of `text` as a report shows, cut between characters.
  private func addText(_ text: UnsafeRawBufferPointer, _ kind: AudienceEntry.Kind, to chunk: AudienceChunk) {
    if let selection, !selection.hasMalformed, kind == .malformedRow || kind == .overlongLine { return }
    var count = min(text.count, Self.textByteLimit)
    if count < text.count {
      while count > 0, unsafe text[count] & 0xC0 == 0x80 { count -= 1 }
    }
    if count > 0, let source = text.baseAddress {
      unsafe (chunk.tokens + chunk.tokenEnd).copyMemory(from: source, byteCount: count)
    }
    add(kind, textCount: count, payloadCount: 0, to: chunk)
  }

  @inline(__always)
  private func add(
    _ kind: AudienceEntry.Kind, textCount: Int, headersCode: UInt8 = 0, payloadCount: Int, to chunk: AudienceChunk
  ) {
    let entry = AudienceEntry(
      line: line, payloadOffset: UInt32(truncatingIfNeeded: chunk.payloadEnd),
      payloadByteCount: UInt32(truncatingIfNeeded: payloadCount),
      tokenOffset: UInt32(truncatingIfNeeded: chunk.tokenEnd), tokenByteCount: UInt8(truncatingIfNeeded: textCount),
      kind: kind,
      headersCode: headersCode)
    unsafe (chunk.entries + chunk.count).initialize(to: entry)
    chunk.count += 1
    chunk.readyCount += kind == .ready ? 1 : 0
    chunk.plainCount += textCount == TokenBytes.usualByteCount && payloadCount == 0 && headersCode == 0 ? 1 : 0
    // Few lines have headers, and a call to another module for each would cost more than the check.
    chunk.tokenEnd += textCount + (headersCode == 0 ? 0 : RingRecord.OwnHeaders.byteCount(headersCode))
    chunk.payloadEnd += payloadCount
  }
}
