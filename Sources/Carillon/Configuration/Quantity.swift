/// Sizes, durations and rates as people write them.
package enum Quantity {
  /// `64KiB`, `16MiB`, `1GiB`, or a plain number of bytes.
  package static func byteCount(_ text: String) -> Int? {
    scaled(text, units: ["": 1, "B": 1, "KiB": 1024, "MiB": 1_048_576, "GiB": 1_073_741_824]).flatMap {
      Int(exactly: $0.rounded())
    }
  }

  /// `250us`, `5ms`, `1.5s`, `2m`, `1h`, `7d`.
  package static func duration(_ text: String) -> Duration? {
    let nanoseconds = scaled(text, units: ["us": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9, "h": 3600e9, "d": 86_400e9])
    return nanoseconds.flatMap { Int64(exactly: $0.rounded()) }.map(Duration.nanoseconds)
  }

  /// `5000/s`, `300/m`, `100/h`: per second, above 0.
  package static func rate(_ text: String) -> Double? {
    scaled(text, units: ["/s": 1, "/m": 1.0 / 60, "/h": 1.0 / 3600]).flatMap { $0 > 0 ? $0 : nil }
  }

  // Written into the loops below, the units come out of the optimiser in an order that differs from
  // build to build.
  private static let byteUnits = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)]
  /// In microseconds.
  private static let timeUnits: [(String, Int64)] = [
    ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1_000),
  ]

  /// Such as `64KiB`, which ``byteCount(_:)`` reads.
  package static func describe(byteCount: Int) -> String {
    for (unit, size) in byteUnits where byteCount >= size && byteCount % size == 0 {
      return "\(byteCount / size)\(unit)"
    }
    return "\(byteCount)"
  }

  /// Such as `5ms`, which ``duration(_:)`` reads.
  package static func describe(_ duration: Duration) -> String {
    if duration == .zero { return "0ms" }
    let microseconds = duration.components.seconds * 1_000_000 + duration.components.attoseconds / 1_000_000_000_000
    for (unit, size) in timeUnits where microseconds >= size && microseconds % size == 0 {
      return "\(microseconds / size)\(unit)"
    }
    return "\(microseconds)us"
  }

  private static func scaled(_ text: String, units: [String: Double]) -> Double? {
    let digits = text.prefix { ("0"..."9").contains($0) || $0 == "." }
    guard digits.first != ".", digits.last != ".", let factor = units[String(text.dropFirst(digits.count))],
      let number = Double(digits)
    else { return nil }
    return number * factor
  }
}
