/// What a form sent: `application/x-www-form-urlencoded`.
struct FormBody: Sendable {
  private var fields: [String: [String]] = [:]

  static let byteCountLimit = 64 << 10
  private static let fieldCountLimit = 256

  /// - Returns: nil if it is malformed.
  init?(parsing bytes: [UInt8]) {
    guard bytes.count <= Self.byteCountLimit else { return nil }
    let pairs = bytes.split(separator: UInt8(ascii: "&"))
    guard pairs.count <= Self.fieldCountLimit else { return nil }
    for pair in pairs {
      let parts = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
      guard let name = Self.decoded(parts[0]), let value = Self.decoded(parts.count == 2 ? parts[1] : []) else {
        return nil
      }
      fields[name, default: []].append(value)
    }
  }

  /// The first value; empty without one.
  subscript(_ name: String) -> String { fields[name]?.first ?? "" }

  func all(_ name: String) -> [String] { fields[name] ?? [] }

  private static func decoded(_ bytes: ArraySlice<UInt8>) -> String? {
    var plain: [UInt8] = []
    var rest = bytes
    while let byte = rest.popFirst() {
      switch byte {
      case UInt8(ascii: "+"): plain.append(UInt8(ascii: " "))
      case UInt8(ascii: "%"):
        guard let high = rest.popFirst().flatMap(digit), let low = rest.popFirst().flatMap(digit) else { return nil }
        plain.append(high << 4 | low)
      default: plain.append(byte)
      }
    }
    return String(validating: plain, as: UTF8.self)
  }

  private static func digit(_ byte: UInt8) -> UInt8? { Character(UnicodeScalar(byte)).hexDigitValue.map { UInt8($0) } }
}
