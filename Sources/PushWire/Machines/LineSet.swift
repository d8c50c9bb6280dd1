/// Some of the lines from 1 to a fixed count, one bit for each.
package struct LineSet: Hashable, Sendable {
  /// The number of all lines.
  package let limit: Int
  /// How many lines are in the set.
  package private(set) var count = 0
  private var words: [UInt64]

  /// - Parameter limit: the number of all lines; not negative.
  package init(limit: Int) {
    self.limit = limit
    words = Array(repeating: 0, count: (limit + 63) / 64)
  }

  package func contains(_ line: Int) -> Bool {
    line >= 1 && line <= limit && words[(line - 1) / 64] >> ((line - 1) & 63) & 1 == 1
  }

  /// Adds lines that exist.
  ///
  /// - Returns: how many of them were not in the set.
  @discardableResult
  package mutating func insert(_ lines: ClosedRange<Int>) -> Int {
    precondition(lines.lowerBound >= 1 && lines.upperBound <= limit, "a line that does not exist")
    let before = count
    var bit = lines.lowerBound - 1
    while bit < lines.upperBound {
      let length = min(lines.upperBound - bit, 64 - (bit & 63))
      let bits = (~UInt64(0) >> UInt64(64 - length)) << UInt64(bit & 63)
      count += (bits & ~words[bit / 64]).nonzeroBitCount
      words[bit / 64] |= bits
      bit += length
    }
    return count - before
  }

  /// The lines in the set up to a line, as ranges that do not touch, in order.
  package func ranges(through last: Int) -> [ClosedRange<Int>] { runs(of: true, through: last) }

  package var ranges: [ClosedRange<Int>] { ranges(through: limit) }

  /// The lines up to a line that are not in the set, as ranges that do not touch, in order.
  package func holes(through last: Int) -> [ClosedRange<Int>] { runs(of: false, through: last) }

  private func runs(of isMember: Bool, through last: Int) -> [ClosedRange<Int>] {
    var found: [ClosedRange<Int>] = []
    let end = min(last, limit)
    var bit = 0
    while bit < end {
      let first = next(isMember, from: bit, end: end)
      guard first < end else { break }
      let next = next(!isMember, from: first, end: end)
      found.append((first + 1)...next)
      bit = next
    }
    return found
  }

  /// The first bit of a kind from a bit on; `end` if there is none before it.
  private func next(_ isMember: Bool, from bit: Int, end: Int) -> Int {
    var bit = bit
    while bit < end {
      let word = (isMember ? words[bit / 64] : ~words[bit / 64]) >> UInt64(bit & 63)
      if word != 0 { return min(end, bit + word.trailingZeroBitCount) }
      bit += 64 - (bit & 63)
    }
    return end
  }

  // MARK: Bytes

  /// The lengths of what is missing and of what is in the set, in turns, seven bits a byte, the
  /// lowest first. A set that is complete, or nearly, takes a few bytes.
  package var bytes: [UInt8] {
    var bytes: [UInt8] = []
    var end = 0
    for lines in ranges {
      for length in [lines.lowerBound - 1 - end, lines.count] {
        var left = length
        while left >= 0x80 {
          bytes.append(UInt8(left & 0x7F) | 0x80)
          left >>= 7
        }
        bytes.append(UInt8(left))
      }
      end = lines.upperBound
    }
    return bytes
  }

  /// Reads what ``bytes`` has given for a set of the same limit. Nil: it is damaged.
  package init?(limit: Int, reading bytes: [UInt8]) {
    self.init(limit: limit)
    var (end, length, shift) = (0, 0, 0)
    var isMember = false
    for byte in bytes {
      guard shift < 56 else { return nil }
      length |= Int(byte & 0x7F) << shift
      shift += 7
      guard byte & 0x80 == 0 else { continue }
      guard length <= limit - end, length > 0 || !isMember else { return nil }
      if isMember { insert((end + 1)...(end + length)) }
      end += length
      (length, shift, isMember) = (0, 0, !isMember)
    }
    guard shift == 0, !isMember else { return nil }
  }
}
