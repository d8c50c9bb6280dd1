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
  package init(parsing bytes: Span<UInt8>) {
    guard bytes.count <= Self.byteCountLimit else { return }
    var found = ProviderErrorBody()
    do throws(JSONError) {
      try found.read(bytes)
    } catch {
      return
    }
    self = found
  }

  /// Reads raw memory in the same way.
  package init(parsing bytes: UnsafeRawBufferPointer) { unsafe self.init(parsing: Span(_unsafeBytes: bytes)) }

  /// The reason that a body names, in the table or not, in printable form.
  package static func reasonText(in bytes: Span<UInt8>) -> String? {
    let body = ProviderErrorBody(parsing: bytes)
    if let reason = body.reason { return reason.rawValue }
    guard let other = body.otherReason else { return nil }
    return ProviderRefusal.printable(bytes.extracting(other))
  }

  private enum Key { case reason, timestamp, other }

  private mutating func read(_ bytes: Span<UInt8>) throws(JSONError) {
    var reader = JSONReader(bytes)
    guard try reader.next() == .beginObject else { return }
    var depth = 1
    var key = Key.other
    while true {
      switch try reader.next() {
      case .beginObject, .beginArray: depth += 1
      case .endObject, .endArray: depth -= 1
      case .key(let range):
        let name = bytes.extracting(range)
        key = depth > 1 ? .other : name.equals("reason") ? .reason : name.equals("timestamp") ? .timestamp : .other
      case .string(let range):
        guard depth == 1, key == .reason, reason == nil, otherReason == nil else { continue }
        reason = ProviderReason(bytes: bytes.extracting(range))
        if reason == nil, !range.isEmpty { otherReason = range }
      case .number(let range):
        if depth == 1, key == .timestamp, timestampMilliseconds == nil {
          timestampMilliseconds = Self.wholeNumber(bytes.extracting(range))
        }
      case .bool, .null: break
      case .end: return
      }
    }
  }

  /// The digits up to a fraction or exponent; nil for a negative number and for more than 64 bits.
  private static func wholeNumber(_ text: Span<UInt8>) -> UInt64? {
    var value: UInt64 = 0
    for index in 0..<text.count {
      let byte = text[index]
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
  init?(bytes: Span<UInt8>) {
    guard (1...32).contains(bytes.count) else { return nil }
    guard let reason = Self.allCases.first(where: { bytes.equals($0.rawValue) }) else {
      return nil
    }
    self = reason
  }
}
