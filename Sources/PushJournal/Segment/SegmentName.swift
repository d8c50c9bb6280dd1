/// File names of segments. Their width is fixed, so the order of names is the order of segments.
package enum SegmentName {
  private static let prefix = "segment-"
  private static let suffix = ".lz4"
  private static let digitCount = 12

  /// A journal cannot reach this number. A file with a larger number is not a segment.
  static let numberLimit: UInt64 = 1_000_000_000_000_000

  static func name(_ number: UInt64) -> String {
    let digits = String(number)
    return prefix + String(repeating: "0", count: max(0, digitCount - digits.count)) + digits + suffix
  }

  /// The number of the segment with this name; nil for any other file.
  package static func number(_ name: String) -> UInt64? {
    guard name.hasPrefix(prefix), name.hasSuffix(suffix) else { return nil }
    guard let number = UInt64(name.dropFirst(prefix.count).dropLast(suffix.count)), number <= numberLimit,
      self.name(number) == name
    else { return nil }
    return number
  }
}
