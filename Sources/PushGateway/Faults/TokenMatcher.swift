internal import Glibc
internal import PushWire

/// A ``Faults/Selection`` prepared for lookups: no allocation and no copy per frame, for any number
/// of tokens.
struct TokenMatcher: Sendable {
  private struct Prefix: Sendable {
    let bytes: [UInt8]
    /// The high half of the next byte, when the number of digits is odd.
    let half: UInt8?
  }

  /// An open-addressed table of indices into `starts` plus one; 0 is a free place. At most half
  /// full.
  private var table: [UInt32] = []
  private var bytes: [UInt8] = []
  /// The offset of each listed token in `bytes`, and at last the end.
  private var starts: [Int] = [0]
  private let prefixes: [Prefix]
  private let every: Int

  /// Nil when nothing can match on this connection.
  init?(_ selection: Faults.Selection, connection: Int) {
    if let connections = selection.connections, connection > connections { return nil }
    every = selection.every ?? 0
    prefixes = selection.prefixes.map { digits in
      let values = digits.utf8.compactMap(Self.value(ofDigit:))
      return Prefix(
        bytes: (0..<values.count / 2).map { values[2 * $0] << 4 | values[2 * $0 + 1] },
        half: values.count % 2 == 1 ? values.last : nil)
    }
    guard every > 0 || !prefixes.isEmpty || !selection.tokens.isEmpty else { return nil }
    var size = 16
    while size < selection.tokens.count * 2 { size *= 2 }
    if !selection.tokens.isEmpty { table = Array(repeating: 0, count: size) }
    for token in selection.tokens {
      bytes += token.bytes
      starts.append(bytes.count)
      let place = unsafe token.withUnsafeBytes { unsafe freePlace($0) }
      table[place] = UInt32(starts.count - 1)
    }
  }

  /// `ordinal`: the frame's number on its connection, from 1.
  func matches(_ token: UnsafeRawBufferPointer, ordinal: Int) -> Bool {
    if every > 0, ordinal % every == 0 { return true }
    if !table.isEmpty, unsafe contains(token) { return true }
    for prefix in prefixes where unsafe Self.begins(token, with: prefix) { return true }
    return false
  }

  private func contains(_ token: UnsafeRawBufferPointer) -> Bool {
    unsafe bytes.withUnsafeBytes { listed in
      var place = unsafe hash(token)
      while table[place] != 0 {
        let index = Int(table[place]) - 1
        let start = starts[index]
        if starts[index + 1] - start == token.count, let left = listed.baseAddress, let right = token.baseAddress,
          unsafe memcmp(left + start, right, token.count) == 0
        {
          return true
        }
        place = (place + 1) & (table.count - 1)
      }
      return false
    }
  }

  private func freePlace(_ token: UnsafeRawBufferPointer) -> Int {
    var place = unsafe hash(token)
    while table[place] != 0 { place = (place + 1) & (table.count - 1) }
    return place
  }

  private func hash(_ token: UnsafeRawBufferPointer) -> Int {
    var sum: UInt64 = 0x9E37_79B9_7F4A_7C15
    var offset = 0
    while offset + 8 <= token.count {
      sum = unsafe (sum ^ token.loadUnaligned(fromByteOffset: offset, as: UInt64.self)) &* 0xFF51_AFD7_ED55_8CCD
      sum ^= sum >> 32
      offset += 8
    }
    while offset < token.count {
      sum = unsafe (sum ^ UInt64(token[offset])) &* 0xFF51_AFD7_ED55_8CCD
      offset += 1
    }
    sum ^= sum >> 29
    return Int(truncatingIfNeeded: sum) & (table.count - 1)
  }

  private static func begins(_ token: UnsafeRawBufferPointer, with prefix: Prefix) -> Bool {
    let count = prefix.bytes.count
    guard token.count >= count + (prefix.half == nil ? 0 : 1) else { return false }
    for index in 0..<count where unsafe token[index] != prefix.bytes[index] { return false }
    if let half = prefix.half { return unsafe token[count] >> 4 == half }
    return true
  }

  static func value(ofDigit digit: UInt8) -> UInt8? {
    switch digit {
    case 0x30...0x39: digit - 0x30
    case 0x41...0x46: digit - 0x41 + 10
    case 0x61...0x66: digit - 0x61 + 10
    default: nil
    }
  }
}
