/// Encodes the header blocks of one direction of a connection (RFC 7541).
///
/// What it has encoded may be used again as it is, as long as ``generation`` stays the same: no
/// index has changed its meaning since.
package struct HPACKEncoder: Sendable {
  package enum Indexing: Sendable {
    /// The field goes into the table unless it is there.
    case always
    /// Its name does. Later fields of the name have a literal value that is never indexed.
    case name
    /// A literal that no table may ever contain (6.2.3).
    case never
  }

  private struct Entry {
    var name: [UInt8]
    var value: [UInt8]

    var cost: Int { name.count + value.count + HPACKDynamicTable.overhead }
  }

  /// Grows with each change of the table.
  package private(set) var generation = 0
  /// The newest entry is the last.
  private var entries: [Entry] = []
  private var byteCount = 0
  private var limit = HPACKDecoder.tableByteCount
  /// The smallest limit since the last block, until the next block says so.
  private var smallest: Int?

  package init() {}

  /// The peer's SETTINGS_HEADER_TABLE_SIZE. The encoder never uses more than the default.
  package mutating func setTableLimit(_ setting: Int) {
    let new = min(setting, HPACKDecoder.tableByteCount)
    guard new != limit || smallest != nil else { return }
    smallest = min(smallest ?? new, new)
    limit = new
    evict(to: new)
    generation += 1
  }

  /// The next block begins with a change of the table's size.
  package var mustResize: Bool { smallest != nil }

  /// Call it first for each block.
  package mutating func begin(into output: inout [UInt8]) {
    guard let smallest else { return }
    if smallest < limit { HPACKInteger.encode(smallest, prefix: 5, flags: 0x20, into: &output) }
    HPACKInteger.encode(limit, prefix: 5, flags: 0x20, into: &output)
    self.smallest = nil
  }

  package mutating func encode(
    name: [UInt8], value: UnsafeRawBufferPointer, _ indexing: Indexing, into output: inout [UInt8]
  ) {
    let found = unsafe find(name, value)
    if indexing == .always, let whole = found.whole {
      return HPACKInteger.encode(whole, prefix: 7, flags: 0x80, into: &output)
    }
    let isAdded =
      (indexing == .always || indexing == .name && found.name == nil)
      && name.count + value.count + HPACKDynamicTable.overhead <= limit
    HPACKInteger.encode(found.name ?? 0, prefix: isAdded ? 6 : 4, flags: isAdded ? 0x40 : 0x10, into: &output)
    if found.name == nil { Self.string(name, into: &output) }
    unsafe Self.string(value, into: &output)
    if isAdded { add(Entry(name: name, value: unsafe Array(value))) }
  }

  /// The beginning of a literal that is never indexed, if the table has its name; nil if not.
  package func reference(toName name: [UInt8]) -> [UInt8]? {
    find(name, EmptyCollection()).name.map { index in
      var output: [UInt8] = []
      HPACKInteger.encode(index, prefix: 4, flags: 0x10, into: &output)
      return output
    }
  }

  /// With the Huffman code if that is shorter.
  private static func string(_ bytes: some Collection<UInt8>, into output: inout [UInt8]) {
    let coded = HPACKHuffman.encodedByteCount(bytes)
    guard coded < bytes.count else { return plain(bytes, into: &output) }
    HPACKInteger.encode(coded, prefix: 7, flags: 0x80, into: &output)
    HPACKHuffman.encode(bytes, into: &output)
  }

  private static func plain(_ bytes: some Collection<UInt8>, into output: inout [UInt8]) {
    HPACKInteger.encode(bytes.count, prefix: 7, flags: 0, into: &output)
    output.append(contentsOf: bytes)
  }

  // MARK: The table

  private func find(
    _ name: [UInt8], _ value: some Collection<UInt8>
  ) -> (whole: Int?, name: Int?) {
    var ofName: Int?
    for (place, entry) in HPACKStaticTable.entries.enumerated() {
      guard unsafe entry.name.count == name.count, unsafe entry.name.elementsEqual(name) else { continue }
      if unsafe entry.value.elementsEqual(value) { return (place + 1, place + 1) }
      ofName = ofName ?? place + 1
    }
    for (place, entry) in entries.enumerated().reversed() {
      guard entry.name.count == name.count, entry.name.elementsEqual(name) else { continue }
      let index = HPACKStaticTable.count + entries.count - place
      if entry.value.elementsEqual(value) { return (index, index) }
      ofName = ofName ?? index
    }
    return (nil, ofName)
  }

  private mutating func add(_ entry: Entry) {
    evict(to: limit - entry.cost)
    entries.append(entry)
    byteCount += entry.cost
    generation += 1
  }

  private mutating func evict(to wanted: Int) {
    var count = 0
    while byteCount > wanted, count < entries.count {
      byteCount -= entries[count].cost
      count += 1
    }
    if count > 0 { entries.removeFirst(count) }
  }
}
