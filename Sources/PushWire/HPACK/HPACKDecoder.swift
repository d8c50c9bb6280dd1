/// One header field of a block. Its bytes are valid until the decoder's next call.
@safe
package struct HPACKField {
  package let name: UnsafeRawBufferPointer
  package let value: UnsafeRawBufferPointer
  /// Where the name stands in the static table; 0 if it was not taken from there.
  package let staticName: Int
  /// What the caller noted when the field came into the dynamic table; 0: nothing, or it was not
  /// taken from there.
  package var note: UInt8 = 0
  /// It has come into the dynamic table: ``HPACKDecoder/note(_:)`` is about it.
  package var isAdded = false
}

/// Why a header block cannot be decoded. It ends the connection, because the dynamic tables of both
/// sides differ from then on.
package enum HPACKFault: String, Error {
  case truncated = "the block ends within a field"
  case integer = "an integer has no end or exceeds 32 bits"
  case index = "an index is 0 or beyond both tables"
  case huffman = "a string is no Huffman code"
  case latecomer = "the table's size changes behind a field"
  case tableSize = "the table's size exceeds what was announced"
}

/// Decodes the header blocks of one direction of a connection (RFC 7541).
///
/// Call ``begin(_:)`` with a whole block, then ``next()`` until it returns something else than a
/// field. The table has its limit; a string's memory is bounded by the block's length.
@safe
package struct HPACKDecoder: ~Copyable {
  package enum Step {
    case field(HPACKField)
    case end
    case fault(HPACKFault)
  }

  /// The default of SETTINGS_HEADER_TABLE_SIZE.
  package static let tableByteCount = 4096

  private var table: HPACKDynamicTable
  private var input = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
  private var offset = 0
  private var hasField = false
  /// The coded strings of the present field.
  private var scratch: UnsafeMutablePointer<UInt8>?
  private var scratchByteCount = 0
  /// More is freed after its block.
  private static let scratchByteCountKept = 4096

  /// - Parameter tableByteCount: what was announced as SETTINGS_HEADER_TABLE_SIZE.
  package init(tableByteCount: Int = tableByteCount) { table = HPACKDynamicTable(limit: tableByteCount) }

  deinit { unsafe scratch?.deallocate() }

  /// The bytes must not change until the block has ended.
  package mutating func begin(_ block: UnsafeRawBufferPointer) {
    unsafe input = unsafe block
    offset = 0
    hasField = false
    guard scratchByteCount > Self.scratchByteCountKept else { return }
    unsafe scratch?.deallocate()
    unsafe scratch = nil
    scratchByteCount = 0
  }

  package mutating func next() -> Step {
    do throws(HPACKFault) {
      while unsafe offset < input.count {
        let first = unsafe input[offset]
        if first & 0xE0 == 0x20 {
          try resize()
        } else {
          hasField = true
          return .field(first & 0x80 != 0 ? try indexed() : try literal(isIndexed: first & 0x40 != 0))
        }
      }
      return .end
    } catch { return .fault(error) }
  }

  /// Keeps a note with the last field, which must have been added to the table. Fields that are
  /// taken from there have it.
  package mutating func note(_ note: UInt8) { table.note(note) }

  // MARK: Fields

  private mutating func resize() throws(HPACKFault) {
    guard !hasField else { throw .latecomer }
    let size = try integer(prefix: 5)
    guard size <= table.largestLimit else { throw .tableSize }
    table.resize(size)
  }

  private mutating func indexed() throws(HPACKFault) -> HPACKField {
    let index = try integer(prefix: 7)
    if index > HPACKStaticTable.count {
      guard let entry = unsafe table.entry(index - HPACKStaticTable.count - 1) else { throw .index }
      return unsafe HPACKField(name: entry.name, value: entry.value, staticName: 0, note: entry.note)
    }
    guard index > 0 else { throw .index }
    let entry = HPACKStaticTable.entries[index - 1]
    return unsafe HPACKField(name: entry.name, value: entry.value, staticName: index)
  }

  private mutating func literal(isIndexed: Bool) throws(HPACKFault) -> HPACKField {
    if isIndexed { table.prepare() }
    let index = try integer(prefix: isIndexed ? 6 : 4)
    var name = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
    var coded: UnsafeRawBufferPointer?
    if index == 0 {
      let string = try string()
      if string.isCoded { unsafe coded = unsafe string.bytes } else { unsafe name = unsafe string.bytes }
    } else if index > HPACKStaticTable.count {
      guard let entry = unsafe table.entry(index - HPACKStaticTable.count - 1) else { throw .index }
      unsafe name = unsafe entry.name
    } else {
      unsafe name = unsafe HPACKStaticTable.entries[index - 1].name
    }
    let string = try string()
    var value = unsafe string.bytes
    // Name and value may both be coded. Room for both comes first, so that neither moves.
    var used = unsafe coded.map { HPACKHuffman.decodedByteCountLimit($0.count) } ?? 0
    if unsafe coded != nil || string.isCoded {
      let memory = unsafe reserve(used + (string.isCoded ? HPACKHuffman.decodedByteCountLimit(value.count) : 0))
      if let coded = unsafe coded {
        unsafe name = unsafe try decoded(coded, into: memory)
        used = name.count
      }
      if string.isCoded { unsafe value = unsafe try decoded(value, into: memory + used) }
    }
    let isAdded = unsafe isIndexed && table.add(name: name, value: value)
    return unsafe HPACKField(
      name: name, value: value, staticName: index <= HPACKStaticTable.count ? index : 0, isAdded: isAdded)
  }

  // MARK: Primitives

  private mutating func integer(prefix: Int) throws(HPACKFault) -> Int {
    guard let value = unsafe HPACKInteger.decode(input, at: &offset, prefix: prefix) else { throw .integer }
    return value
  }

  @safe
  private struct Text {
    let bytes: UnsafeRawBufferPointer
    let isCoded: Bool
  }

  private mutating func string() throws(HPACKFault) -> Text {
    guard unsafe offset < input.count else { throw .truncated }
    let isCoded = unsafe input[offset] & 0x80 != 0
    let count = try integer(prefix: 7)
    guard unsafe count <= input.count - offset else { throw .truncated }
    defer { offset += count }
    return unsafe Text(bytes: UnsafeRawBufferPointer(rebasing: input[offset..<offset + count]), isCoded: isCoded)
  }

  private func decoded(
    _ bytes: UnsafeRawBufferPointer, into memory: UnsafeMutablePointer<UInt8>
  ) throws(HPACKFault) -> UnsafeRawBufferPointer {
    guard let count = unsafe HPACKHuffman.decode(bytes, into: memory) else { throw .huffman }
    return unsafe UnsafeRawBufferPointer(start: memory, count: count)
  }

  private mutating func reserve(_ byteCount: Int) -> UnsafeMutablePointer<UInt8> {
    if let scratch = unsafe scratch, scratchByteCount >= byteCount { return unsafe scratch }
    unsafe scratch?.deallocate()
    scratchByteCount = max(byteCount, 256)
    let new = UnsafeMutablePointer<UInt8>.allocate(capacity: scratchByteCount)
    unsafe scratch = unsafe new
    return unsafe new
  }
}
