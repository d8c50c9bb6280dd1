internal import Glibc

/// One CSV record cut into its fields by RFC 4180; spaces around a field are ignored. It holds its
/// memory and is reused for every record.
@safe struct AudienceRecord: ~Copyable {
  /// A field's place in the record, without its quotes.
  struct Field {
    var start: Int
    var end: Int
    /// Each quote within it is doubled.
    var isQuoted: Bool
  }

  private let fields: UnsafeMutablePointer<Field>
  /// One more than a valid record has, so that too many columns are noticed.
  private let limit: Int
  private(set) var count = 0

  init(columnLimit: Int) {
    limit = columnLimit + 1
    unsafe fields = .allocate(capacity: limit)
  }

  deinit { unsafe fields.deallocate() }

  subscript(index: Int) -> Field {
    precondition(index >= 0 && index < count, "no such field in the record")
    return unsafe fields[index]
  }

  /// Cuts `record`, which has no line end. False if quotes are misplaced. With too many columns,
  /// `count` is above the limit.
  mutating func split(_ record: UnsafeRawBufferPointer) -> Bool {
    count = 0
    guard let base = record.baseAddress else { return true }
    if unsafe memchr(base, Int32(UInt8(ascii: "\"")), record.count) != nil { return unsafe splitQuoted(record) }
    var start = 0
    while count < limit {
      guard let comma = unsafe memchr(base + start, Int32(UInt8(ascii: ",")), record.count - start) else {
        unsafe append(record, start, record.count, isQuoted: false)
        return true
      }
      let end = unsafe UnsafeRawPointer(comma) - base
      unsafe append(record, start, end, isQuoted: false)
      start = end + 1
    }
    return true
  }

  private mutating func splitQuoted(_ record: UnsafeRawBufferPointer) -> Bool {
    var position = 0
    while count < limit {
      while unsafe position < record.count && AudienceReader.isSpace(record[position]) { position += 1 }
      if unsafe position < record.count && record[position] == UInt8(ascii: "\"") {
        let start = position + 1
        guard let end = unsafe closingQuote(record, from: start) else { return false }
        unsafe fields[count] = Field(start: start, end: end, isQuoted: true)
        count += 1
        position = end + 1
        while unsafe position < record.count && AudienceReader.isBlank(record[position]) { position += 1 }
      } else {
        let start = position
        while unsafe position < record.count && record[position] != UInt8(ascii: ",") { position += 1 }
        unsafe append(record, start, position, isQuoted: false)
      }
      if position == record.count { return true }
      // After a closing quote only a comma may follow.
      guard unsafe record[position] == UInt8(ascii: ",") else { return false }
      position += 1
    }
    return true
  }

  private mutating func append(_ record: UnsafeRawBufferPointer, _ start: Int, _ end: Int, isQuoted: Bool) {
    var (start, end) = (start, end)
    while start < end, unsafe AudienceReader.isBlank(record[start]) { start += 1 }
    while start < end, unsafe AudienceReader.isBlank(record[end - 1]) { end -= 1 }
    unsafe fields[count] = Field(start: start, end: end, isQuoted: isQuoted)
    count += 1
  }

  /// The offset of the quote that ends a field whose content begins at `start`.
  private func closingQuote(_ record: UnsafeRawBufferPointer, from start: Int) -> Int? {
    var position = start
    while position < record.count {
      if unsafe record[position] == UInt8(ascii: "\"") {
        guard unsafe position + 1 < record.count && record[position + 1] == UInt8(ascii: "\"") else { return position }
        position += 1
      }
      position += 1
    }
    return nil
  }
}

/// Finds the end of a record, the first line end outside quotes, in any chunking of the file. The
/// reader passes at most one byte above the limit.
struct AudienceRecordEnd {
  private enum State { case fieldStart, unquoted, quoted, quoteInQuoted }

  let isCSV: Bool
  private var state = State.fieldStart
  /// Bytes of the record so far, without the line end.
  private(set) var byteCount = 0
  private(set) var lineEnds: UInt64 = 0

  init(isCSV: Bool) { self.isCSV = isCSV }

  var isOverlong: Bool { byteCount > AudienceReader.lineByteLimit }

  /// Continues with `bytes` from `start`. Returns the offset of the line end that ends the record;
  /// nil if the record continues after `bytes`.
  mutating func find(_ bytes: UnsafeRawBufferPointer, from start: Int) -> Int? {
    var position = start
    while position < bytes.count {
      let byte = unsafe bytes[position]
      if byte == UInt8(ascii: "\n") {
        lineEnds += 1
        if !isCSV || state != .quoted { return position }
      }
      byteCount += 1
      position += 1
      guard isCSV else { continue }
      switch (state, byte) {
      case (.quoted, UInt8(ascii: "\"")): state = .quoteInQuoted
      case (.quoted, _): break
      case (.quoteInQuoted, UInt8(ascii: "\"")): state = .quoted
      case (.fieldStart, UInt8(ascii: "\"")): state = .quoted
      case (_, UInt8(ascii: ",")): state = .fieldStart
      case (.fieldStart, UInt8(ascii: " ")), (.fieldStart, UInt8(ascii: "\t")): break
      default: state = .unquoted
      }
    }
    return nil
  }
}
