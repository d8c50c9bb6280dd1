extension JSONScanner {
  /// Where the line that begins at `start` ends: at the next line feed, or at the end of the text.
  package static func lineEnd(_ text: [UInt8], from start: Int) -> Int {
    unsafe text.withUnsafeBytes { bytes in
      var offset = start
      // A byte is a line feed where the difference has a zero byte: the lowest one is found
      // exactly.
      while offset + 8 <= bytes.count {
        let word = unsafe UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
        let difference = word ^ 0x0A0A_0A0A_0A0A_0A0A
        let zeros = (difference &- 0x0101_0101_0101_0101) & ~difference & 0x8080_8080_8080_8080
        if zeros != 0 { return offset + zeros.trailingZeroBitCount / 8 }
        offset += 8
      }
      while offset < bytes.count, unsafe bytes[offset] != UInt8(ascii: "\n") { offset += 1 }
      return offset
    }
  }

  /// Where the elements of an array lie in its text. Nothing is parsed into values.
  ///
  /// - Throws: ``JSONError`` if the text is not JSON.
  /// - Returns: nil if it is something else than an array.
  package static func elements(_ text: [UInt8]) throws(JSONError) -> [Range<Int>]? {
    var reader = JSONReader(text.span)
    guard try reader.next() == .beginArray else {
      while try reader.next() != .end {}
      return nil
    }
    var elements: [Range<Int>] = []
    var depth = 1
    var start = 0
    while true {
      let event = try reader.next()
      if event == .end { return elements }
      let isNested = event == .beginObject || event == .beginArray
      let isEnd = event == .endObject || event == .endArray
      // An opening bracket is the last byte that was read.
      if depth == 1, isNested { start = reader.offset - 1 }
      if isNested { depth += 1 }
      if isEnd { depth -= 1 }
      guard depth == 1, !isNested else { continue }
      switch event {
      case .string(let range): elements.append(range.lowerBound - 1..<range.upperBound + 1)
      case .number(let range): elements.append(range)
      case .bool(let value): elements.append(reader.offset - (value ? 4 : 5)..<reader.offset)
      case .null: elements.append(reader.offset - 4..<reader.offset)
      default: elements.append(start..<reader.offset)
      }
    }
  }
}
