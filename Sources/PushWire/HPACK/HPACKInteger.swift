/// Integers of HPACK (RFC 7541, 5.1): the first bits share a byte with flags.
enum HPACKInteger {
  /// Appends the number in the lower `prefix` bits of `flags` and as many bytes as it needs beyond.
  static func encode(_ value: Int, prefix: Int, flags: UInt8, into output: inout [UInt8]) {
    let limit = 1 << prefix - 1
    if value < limit { return output.append(flags | UInt8(value)) }
    output.append(flags | UInt8(limit))
    var rest = value - limit
    while rest >= 128 {
      output.append(UInt8(rest & 127) | 128)
      rest >>= 7
    }
    output.append(UInt8(rest))
  }

  /// Reads a number at `offset` and moves it on. Nil: the input ends within it, or it exceeds 32
  /// bits.
  @inline(__always)
  static func decode(_ input: Span<UInt8>, at offset: inout Int, prefix: Int) -> Int? {
    guard offset < input.count else { return nil }
    let limit = 1 << prefix - 1
    let first = Int(input[offset]) & limit
    offset += 1
    return first < limit ? first : decodeLong(input, at: &offset, first: first)
  }

  private static func decodeLong(_ input: Span<UInt8>, at offset: inout Int, first: Int) -> Int? {
    var value = first
    var shift = 0
    while offset < input.count, shift < 32 {
      let byte = input[offset]
      offset += 1
      value += Int(byte & 127) << shift
      guard value <= UInt32.max else { return nil }
      if byte & 128 == 0 { return value }
      shift += 7
    }
    return nil
  }
}
