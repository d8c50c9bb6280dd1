/// One header field of a block. Its bytes are valid until the decoder's next call, and as long as
/// the block's.
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
/// Call ``begin()``, then ``next(in:)`` with a whole block until it returns something else than a
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
  /// How far the present block is read.
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

  /// The next block follows.
  package mutating func begin() {
    offset = 0
    hasField = false
    guard scratchByteCount > Self.scratchByteCountKept else { return }
    unsafe scratch?.deallocate()
    unsafe scratch = nil
    scratchByteCount = 0
  }

  package mutating func next(in block: Span<UInt8>) -> Step {
    do throws(HPACKFault) {
      while offset < block.count {
        let first = block[offset]
        if first & 0xE0 == 0x20 {
          try resize(block)
        } else {
          hasField = true
          return .field(first & 0x80 != 0 ? try indexed(block) : try literal(block, isIndexed: first & 0x40 != 0))
        }
      }
      return .end
    } catch { return .fault(error) }
  }

  /// Keeps a note with the last field, which must have been added to the table. Fields that are
  /// taken from there have it.
  package mutating func note(_ note: UInt8) { table.note(note) }

  // MARK: Fields

  private mutating func resize(_ block: Span<UInt8>) throws(HPACKFault) {
    guard !hasField else { throw .latecomer }
    let size = try integer(block, prefix: 5)
    guard size <= table.largestLimit else { throw .tableSize }
    table.resize(size)
  }

  private mutating func indexed(_ block: Span<UInt8>) throws(HPACKFault) -> HPACKField {
    let index = try integer(block, prefix: 7)
    if index > HPACKStaticTable.count {
      guard let entry = unsafe table.entry(index - HPACKStaticTable.count - 1) else { throw .index }
      return unsafe HPACKField(name: entry.name, value: entry.value, staticName: 0, note: entry.note)
    }
    guard index > 0 else { throw .index }
    let entry = HPACKStaticTable.entries[index - 1]
    return unsafe HPACKField(name: entry.name, value: entry.value, staticName: index)
  }

  private mutating func literal(_ block: Span<UInt8>, isIndexed: Bool) throws(HPACKFault) -> HPACKField {
    if isIndexed { table.prepare() }
    let index = try integer(block, prefix: isIndexed ? 6 : 4)
    var name = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
    var coded: Range<Int>?
    if index == 0 {
      let string = try string(block)
      if string.isCoded { coded = string.range } else { unsafe name = unsafe view(block, string.range) }
    } else if index > HPACKStaticTable.count {
      guard let entry = unsafe table.entry(index - HPACKStaticTable.count - 1) else { throw .index }
      unsafe name = unsafe entry.name
    } else {
      unsafe name = unsafe HPACKStaticTable.entries[index - 1].name
    }
    let string = try string(block)
    var value = unsafe view(block, string.range)
    // Name and value may both be coded. Room for both comes first, so that neither moves.
    var used = coded.map { HPACKHuffman.decodedByteCountLimit($0.count) } ?? 0
    if coded != nil || string.isCoded {
      let memory = unsafe reserve(used + (string.isCoded ? HPACKHuffman.decodedByteCountLimit(value.count) : 0))
      if let coded {
        unsafe name = unsafe try decoded(block.extracting(coded), into: memory)
        used = name.count
      }
      if string.isCoded { unsafe value = unsafe try decoded(block.extracting(string.range), into: memory + used) }
    }
    let isAdded = unsafe isIndexed && table.add(name: name, value: value)
    return unsafe HPACKField(
      name: name, value: value, staticName: index <= HPACKStaticTable.count ? index : 0, isAdded: isAdded)
  }

  // MARK: Primitives

  private mutating func integer(_ block: Span<UInt8>, prefix: Int) throws(HPACKFault) -> Int {
    guard let value = HPACKInteger.decode(block, at: &offset, prefix: prefix) else { throw .integer }
    return value
  }

  private mutating func string(_ block: Span<UInt8>) throws(HPACKFault) -> (range: Range<Int>, isCoded: Bool) {
    guard offset < block.count else { throw .truncated }
    let isCoded = block[offset] & 0x80 != 0
    let count = try integer(block, prefix: 7)
    guard count <= block.count - offset else { throw .truncated }
    defer { offset += count }
    return (offset..<offset + count, isCoded)
  }

  /// For a field, which is valid as long as its block.
  private func view(_ block: Span<UInt8>, _ range: Range<Int>) -> UnsafeRawBufferPointer {
    unsafe block.extracting(range).withUnsafeBytes { unsafe $0 }
  }

  private func decoded(
    _ bytes: Span<UInt8>, into memory: UnsafeMutablePointer<UInt8>
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
