internal import Glibc
internal import PushWire

/// Checks that payloads are JSON objects. It keeps the last valid payload: in a campaign with one
/// payload for all, each check is one comparison.
package struct PayloadCheck: ~Copyable {
  private var lastGood: [UInt8] = []

  package init() {}

  package mutating func isValid(_ payload: UnsafeRawBufferPointer) -> Bool {
    if unsafe lastGood.holdsSameBytes(as: payload) { return true }
    guard unsafe JSONScanner.isObject(payload) else { return false }
    lastGood.removeAll(keepingCapacity: true)
    unsafe lastGood.append(contentsOf: payload)
    return true
  }
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
