internal import Glibc
internal import PushWire

/// Checks that payloads are JSON objects. It keeps the last valid payload: in a campaign with one
/// payload for all, each check is one comparison.
package struct PayloadRepetition: ~Copyable {
  package enum Verdict { case same, new, invalid }

  /// The last valid one.
  package private(set) var payload: [UInt8] = []

  package init() {}

  package mutating func check(_ bytes: UnsafeRawBufferPointer) -> Verdict {
    if unsafe payload.holdsSameBytes(as: bytes) { return .same }
    guard unsafe JSONScanner.isObject(bytes) else { return .invalid }
    payload = unsafe Array(bytes)
    return .new
  }

  package mutating func isValid(_ bytes: UnsafeRawBufferPointer) -> Bool { unsafe check(bytes) != .invalid }
}

extension [UInt8] {
  package func holdsSameBytes(as bytes: UnsafeRawBufferPointer) -> Bool {
    guard count == bytes.count, !isEmpty else { return false }
    return unsafe withUnsafeBytes { mine in
      guard let left = mine.baseAddress, let right = bytes.baseAddress else { return false }
      return unsafe memcmp(left, right, mine.count) == 0
    }
  }
}
