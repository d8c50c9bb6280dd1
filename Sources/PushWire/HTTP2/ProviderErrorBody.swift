/// The body of a refusal, or the debug data of a GOAWAY:
/// `{"reason":"Unregistered","timestamp":1700000000000}`.
///
/// The bytes come from the network. Reading any bytes terminates and allocates nothing.
package struct ProviderErrorBody: Hashable, Sendable {
  /// Nil if there is none, or if it is not in the table.
  package var reason: ProviderReason?
  /// The time at which the service last found the token invalid, in milliseconds since 1970 (410
  /// only).
  package var timestampMilliseconds: UInt64?
  /// The place of a reason that is not in the table.
  package private(set) var otherReason: Range<Int>?

  package init(reason: ProviderReason? = nil, timestampMilliseconds: UInt64? = nil) {
    (self.reason, self.timestampMilliseconds) = (reason, timestampMilliseconds)
  }

  /// The longest body that is read, in bytes. The service's own have fewer than 100.
  package static let byteCountLimit = 4096

  /// Reads reason and timestamp; nothing if the body is not a JSON object. Keys of inner objects
  /// are ignored. The first of repeated keys counts.
  package init(parsing bytes: UnsafeRawBufferPointer) {
    guard bytes.count <= Self.byteCountLimit else { return }
    var found = ProviderErrorBody()
    do throws(JSONError) {
      try unsafe found.read(bytes)
    } catch {
      return
    }
    self = found
  }

  /// Reads an array in the same way.
  package init(parsing bytes: [UInt8]) {
    self = unsafe bytes.withUnsafeBytes { unsafe ProviderErrorBody(parsing: $0) }
  }

  /// The reason that a body names, in the table or not, in printable form.
  package static func reasonText(in bytes: UnsafeRawBufferPointer) -> String? {
    let body = unsafe ProviderErrorBody(parsing: bytes)
    let other = body.otherReason.map { unsafe ProviderRefusal.printable(UnsafeRawBufferPointer(rebasing: bytes[$0])) }
    return body.reason?.rawValue ?? other
  }

  private enum Key { case reason, timestamp, other }

  private mutating func read(_ bytes: UnsafeRawBufferPointer) throws(JSONError) {
    var reader = unsafe JSONReader(bytes)
    guard try unsafe reader.next() == .beginObject else { return }
    var depth = 1
    var key = Key.other
    while true {
      switch try unsafe reader.next() {
      case .beginObject, .beginArray: depth += 1
      case .endObject, .endArray: depth -= 1
      case .key(let range):
        let text = unsafe UnsafeRawBufferPointer(rebasing: bytes[range])
        key =
          unsafe depth > 1
          ? .other : Self.equal(text, "reason") ? .reason : Self.equal(text, "timestamp") ? .timestamp : .other
      case .string(let range):
        guard depth == 1, key == .reason, reason == nil, otherReason == nil else { continue }
        reason = unsafe ProviderReason(bytes: UnsafeRawBufferPointer(rebasing: bytes[range]))
        if reason == nil, !range.isEmpty { otherReason = range }
      case .number(let range):
        if depth == 1, key == .timestamp, timestampMilliseconds == nil {
          timestampMilliseconds = unsafe Self.wholeNumber(UnsafeRawBufferPointer(rebasing: bytes[range]))
        }
      case .bool, .null: break
      case .end: return
      }
    }
  }

  private static func equal(_ bytes: UnsafeRawBufferPointer, _ text: StaticString) -> Bool {
    guard bytes.count == text.utf8CodeUnitCount else { return false }
    for index in 0..<bytes.count where unsafe bytes[index] != text.utf8Start[index] { return false }
    return true
  }

  /// The digits up to a fraction or exponent; nil for a negative number and for more than 64 bits.
  private static func wholeNumber(_ text: UnsafeRawBufferPointer) -> UInt64? {
    var value: UInt64 = 0
    for index in 0..<text.count {
      let byte = unsafe text[index]
      guard byte &- 0x30 < 10 else { return byte == UInt8(ascii: ".") ? value : nil }
      let (product, overflow) = value.multipliedReportingOverflow(by: 10)
      let (sum, carried) = product.addingReportingOverflow(UInt64(byte &- 0x30))
      guard !overflow, !carried else { return nil }
      value = sum
    }
    return value
  }
}

extension ProviderReason {
  /// The reason with exactly these bytes as its name; names have at most 32 bytes. Allocates
  /// nothing.
  init?(bytes: UnsafeRawBufferPointer) {
    guard (1...32).contains(bytes.count) else { return nil }
    guard let reason = Self.allCases.first(where: { unsafe $0.rawValue.utf8.elementsEqual(bytes) }) else {
      return nil
    }
    self = reason
  }
}
