internal import Glibc
internal import PushTransport

/// The fields of a request that the service reads, found in one pass. The views are valid as long
/// as the request.
@safe
struct ServiceRequest {
  let streamID: Int32
  let body: UnsafeRawBufferPointer
  let bodyByteCount: Int
  private(set) var method: UnsafeRawBufferPointer
  private(set) var path: UnsafeRawBufferPointer
  private(set) var authorization: UnsafeRawBufferPointer?
  private(set) var topic: UnsafeRawBufferPointer?
  private(set) var pushType: UnsafeRawBufferPointer?
  private(set) var identifier: UnsafeRawBufferPointer?
  private(set) var expiration: UnsafeRawBufferPointer?
  private(set) var priority: UnsafeRawBufferPointer?
  private(set) var collapseIdentifier: UnsafeRawBufferPointer?
  private(set) var channel: UnsafeRawBufferPointer?
  private(set) var requestIdentifier: UnsafeRawBufferPointer?
  /// One of these fields occurs twice.
  private(set) var hasDuplicate = false

  init(_ request: HTTP2Request) {
    streamID = request.streamID
    unsafe body = request.body
    bodyByteCount = request.bodyByteCount
    unsafe method = UnsafeRawBufferPointer(start: nil, count: 0)
    unsafe path = UnsafeRawBufferPointer(start: nil, count: 0)
    for index in 0..<request.fieldCount {
      let name = unsafe request.name(index)
      switch name.count {
      case 5: if unsafe Text.equal(name, ":path") { unsafe path = request.value(index) }
      case 7:
        if unsafe Text.equal(name, "apns-id") {
          unsafe Self.take(request.value(index), &identifier, &hasDuplicate)
        } else if unsafe Text.equal(name, ":method") {
          unsafe method = request.value(index)
        }
      case 10:
        if unsafe Text.equal(name, "apns-topic") { unsafe Self.take(request.value(index), &topic, &hasDuplicate) }
      case 13:
        if unsafe Text.equal(name, "authorization") {
          unsafe Self.take(request.value(index), &authorization, &hasDuplicate)
        } else if unsafe Text.equal(name, "apns-priority") {
          unsafe Self.take(request.value(index), &priority, &hasDuplicate)
        }
      case 14:
        if unsafe Text.equal(name, "apns-push-type") {
          unsafe Self.take(request.value(index), &pushType, &hasDuplicate)
        }
      case 15:
        if unsafe Text.equal(name, "apns-expiration") {
          unsafe Self.take(request.value(index), &expiration, &hasDuplicate)
        } else if unsafe Text.equal(name, "apns-channel-id") {
          unsafe Self.take(request.value(index), &channel, &hasDuplicate)
        } else if unsafe Text.equal(name, "apns-request-id") {
          unsafe Self.take(request.value(index), &requestIdentifier, &hasDuplicate)
        }
      case 16:
        if unsafe Text.equal(name, "apns-collapse-id") {
          unsafe Self.take(request.value(index), &collapseIdentifier, &hasDuplicate)
        }
      default: break
      }
    }
  }

  private static func take(
    _ value: UnsafeRawBufferPointer, _ field: inout UnsafeRawBufferPointer?, _ hasDuplicate: inout Bool
  ) {
    if unsafe field != nil { hasDuplicate = true }
    unsafe field = unsafe value
  }
}

/// Compares and reads bytes without making strings.
enum Text {
  @inline(__always)
  static func equal(_ bytes: UnsafeRawBufferPointer, _ text: StaticString) -> Bool {
    guard bytes.count == text.utf8CodeUnitCount, let base = bytes.baseAddress else {
      return bytes.count == 0 && text.utf8CodeUnitCount == 0
    }
    return unsafe memcmp(base, text.utf8Start, bytes.count) == 0
  }

  @inline(__always)
  static func hasPrefix(_ bytes: UnsafeRawBufferPointer, _ text: StaticString) -> Bool {
    guard bytes.count >= text.utf8CodeUnitCount, let base = bytes.baseAddress else { return false }
    return unsafe memcmp(base, text.utf8Start, text.utf8CodeUnitCount) == 0
  }

  static func string(_ bytes: UnsafeRawBufferPointer) -> String { unsafe String(decoding: bytes, as: UTF8.self) }

  /// The value of 1 to 18 digits; nil for anything else.
  static func number(_ bytes: UnsafeRawBufferPointer) -> Int64? {
    guard (1...18).contains(bytes.count) else { return nil }
    var value: Int64 = 0
    for index in 0..<bytes.count {
      let digit = unsafe bytes[index] &- 0x30
      guard digit < 10 else { return nil }
      value = value * 10 + Int64(digit)
    }
    return value
  }
}
