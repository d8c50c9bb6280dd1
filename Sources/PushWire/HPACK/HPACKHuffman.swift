/// The Huffman code of HPACK (RFC 7541, appendix B).
///
/// The code is canonical: shorter codes come first, those of equal length in the order of their
/// symbols. So the lengths say everything.
enum HPACKHuffman {
  /// By symbol; the last is EOS, which no string may contain.
  private static let lengths: [UInt8] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7,
    7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21,
    23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24,
    21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
  ]

  private static let endOfString = 256
  private static let longest = 30
  /// Codes of at most so many bits are found by one look into a table. Text has no longer ones.
  private static let windowBits = 10

  /// Codes of one length: `first` of them begin with the code `code`.
  private struct Length {
    var code: UInt32 = 0
    var count: UInt32 = 0
    /// The place of the first one's symbol in `symbols`.
    var start = 0
  }

  private struct Tables {
    /// By symbol.
    var codes = [UInt32](repeating: 0, count: 257)
    /// By the next bits: the length of the code in the upper byte and the symbol in the lower; 0 if
    /// the code is longer.
    var window = [UInt16](repeating: 0, count: 1 << windowBits)
    var byLength = [Length](repeating: Length(), count: longest + 1)
    /// In the order of the codes.
    var symbols: [UInt16] = []

    init() {
      var code: UInt32 = 0
      for length in 1...longest {
        code <<= 1
        byLength[length].code = code
        byLength[length].start = symbols.count
        for symbol in 0..<lengths.count where lengths[symbol] == length {
          codes[symbol] = code
          symbols.append(UInt16(symbol))
          byLength[length].count += 1
          if length <= windowBits {
            let spare = windowBits - length
            for rest in 0..<1 << spare {
              window[Int(code) << spare | rest] = UInt16(length) << 8 | UInt16(symbol)
            }
          }
          code += 1
        }
      }
    }
  }

  private static let tables = Tables()
  /// The same window at a fixed address, for the loop that decodes.
  private nonisolated(unsafe) static let window: UnsafePointer<UInt16> = {
    let window = UnsafeMutablePointer<UInt16>.allocate(capacity: tables.window.count)
    for (index, entry) in tables.window.enumerated() { unsafe window[index] = entry }
    return unsafe UnsafePointer(window)
  }()

  // MARK: Encoding

  /// The length of the coded bytes.
  static func encodedByteCount(_ bytes: some Sequence<UInt8>) -> Int {
    (bytes.reduce(0) { $0 + Int(lengths[Int($1)]) } + 7) / 8
  }

  /// Appends the code of the bytes, filled up with ones.
  static func encode(_ bytes: some Sequence<UInt8>, into output: inout [UInt8]) {
    let tables = tables
    var bits: UInt64 = 0
    var count = 0
    for byte in bytes {
      let length = Int(lengths[Int(byte)])
      bits = bits << UInt64(length) | UInt64(tables.codes[Int(byte)])
      count += length
      while count >= 8 {
        count -= 8
        output.append(UInt8(truncatingIfNeeded: bits >> UInt64(count)))
      }
    }
    if count > 0 { output.append(UInt8(truncatingIfNeeded: bits << UInt64(8 - count)) | 0xFF >> UInt8(count)) }
  }

  // MARK: Decoding

  /// The most bytes that so many coded bytes can stand for: the shortest code has five bits.
  @inline(__always)
  static func decodedByteCountLimit(_ count: Int) -> Int { count * 8 / 5 }

  /// Decodes a string into `output`, which has room for ``decodedByteCountLimit(_:)``. Nil: it is
  /// no code, contains EOS, or is not filled up with at most seven ones.
  ///
  /// - Returns: the number of bytes.
  static func decode(_ input: Span<UInt8>, into output: UnsafeMutablePointer<UInt8>) -> Int? {
    let window = unsafe window
    let end = input.count
    // The next bits are the upper ones of `bits`; below them are zeros.
    var bits: UInt64 = 0
    var count = 0
    var next = 0
    var written = 0
    while true {
      if count < longest {
        if next + 4 <= end {
          bits |= UInt64(input.word(at: next)) &<< UInt64(truncatingIfNeeded: 32 &- count)
          count &+= 32
          next &+= 4
        } else {
          while count <= 56, next < end {
            bits |= UInt64(input[next]) &<< UInt64(truncatingIfNeeded: 56 &- count)
            count &+= 8
            next &+= 1
          }
        }
      }
      let entry = unsafe window[Int(truncatingIfNeeded: bits &>> UInt64(64 - windowBits))]
      var length = Int(truncatingIfNeeded: entry &>> 8)
      var symbol = UInt8(truncatingIfNeeded: entry)
      if length == 0 || length > count {
        guard count > 7 else { break }
        guard let long = longCode(bits), long.length <= count else { return nil }
        (length, symbol) = long
      }
      unsafe output[written] = symbol
      written &+= 1
      bits &<<= UInt64(truncatingIfNeeded: length)
      count &-= length
    }
    // What is left is less than any code, or the beginning of one.
    guard next == end, bits >> 56 == 0xFF & ~(0xFF >> UInt64(count)) else { return nil }
    return written
  }

  private static func longCode(_ bits: UInt64) -> (length: Int, symbol: UInt8)? {
    for length in 5...longest {
      let code = UInt32(truncatingIfNeeded: bits >> UInt64(64 - length))
      let codes = tables.byLength[length]
      guard code >= codes.code, code - codes.code < codes.count else { continue }
      let symbol = tables.symbols[codes.start + Int(code - codes.code)]
      return symbol == endOfString ? nil : (length, UInt8(truncatingIfNeeded: symbol))
    }
    return nil
  }
}
