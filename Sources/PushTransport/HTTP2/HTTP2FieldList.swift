internal import CNGHTTP2

/// Header fields in nghttp2's form, made once. Nothing is copied when they are sent.
@safe
final class HTTP2FieldList: @unchecked Sendable {
  // Sync: written only in init, afterwards only read. nghttp2 demands mutable pointers, but never
  // writes through them.
  let fields: UnsafeMutablePointer<nghttp2_nv>
  let count: Int
  private let text: UnsafeMutablePointer<UInt8>

  init(_ list: [HTTP2Field]) {
    let byteCount = list.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count }
    let text = UnsafeMutablePointer<UInt8>.allocate(capacity: max(byteCount, 1))
    let fields = UnsafeMutablePointer<nghttp2_nv>.allocate(capacity: max(list.count, 1))
    var offset = 0
    func put(_ string: String) -> UnsafeMutablePointer<UInt8> {
      let start = unsafe text + offset
      for byte in string.utf8 {
        unsafe text[offset] = byte
        offset += 1
      }
      return unsafe start
    }
    for (index, field) in list.enumerated() {
      var flags = UInt8(NGHTTP2_NV_FLAG_NO_COPY_NAME.rawValue | NGHTTP2_NV_FLAG_NO_COPY_VALUE.rawValue)
      if !field.isIndexed { flags |= UInt8(NGHTTP2_NV_FLAG_NO_INDEX.rawValue) }
      let (name, value) = unsafe (put(field.name), put(field.value))
      unsafe (fields + index).initialize(
        to: nghttp2_nv(
          name: name, value: value, namelen: field.name.utf8.count, valuelen: field.value.utf8.count, flags: flags))
    }
    unsafe self.text = unsafe text
    unsafe self.fields = unsafe fields
    count = list.count
  }

  deinit {
    unsafe fields.deallocate()
    unsafe text.deallocate()
  }
}

extension HTTP2FieldList {
  enum Name {
    case path, identifier, expiration, priority, collapse, status

    fileprivate var text: StaticString {
      switch self {
      case .path: ":path"
      case .identifier: "apns-id"
      case .expiration: "apns-expiration"
      case .priority: "apns-priority"
      case .collapse: "apns-collapse-id"
      case .status: ":status"
      }
    }
  }

  /// A field whose value nghttp2 copies when the request is submitted.
  @inline(__always)
  static func field(_ name: Name, value: UnsafeMutablePointer<UInt8>, count: Int, isIndexed: Bool) -> nghttp2_nv {
    let text = name.text
    var flags = UInt8(NGHTTP2_NV_FLAG_NO_COPY_NAME.rawValue)
    if !isIndexed { flags |= UInt8(NGHTTP2_NV_FLAG_NO_INDEX.rawValue) }
    return unsafe nghttp2_nv(
      name: UnsafeMutablePointer(mutating: text.utf8Start), value: value, namelen: text.utf8CodeUnitCount,
      valuelen: count, flags: flags)
  }
}

/// Lower-case hexadecimal digits.
enum HTTP2Hexadecimal {
  /// Writes two digits for each byte, at most 100 bytes, and returns the number of digits. Works on
  /// eight digits at a time in one word, without a table.
  @inline(__always)
  static func write(_ bytes: UnsafeRawBufferPointer, into destination: UnsafeMutablePointer<UInt8>) -> Int {
    let count = min(bytes.count, 100)
    let output = UnsafeMutableRawPointer(destination)
    var index = 0
    while index + 4 <= count {
      // Spreads bytes b3 b2 b1 b0 to one per 16 bits, then each to two nibbles, the upper one first
      // in memory.
      let four = unsafe UInt64(UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: index, as: UInt32.self)))
      let pairs = (four | four << 16) & 0x0000_FFFF_0000_FFFF
      let spread = (pairs | pairs << 8) & 0x00FF_00FF_00FF_00FF
      let nibbles = (spread >> 4 | spread << 8) & 0x0F0F_0F0F_0F0F_0F0F
      // The top bit of 0x76 + n is set exactly if n is at least 10. Then "a" − 10 is added instead
      // of "0".
      let letters = (nibbles &+ 0x7676_7676_7676_7676) >> 7 & 0x0101_0101_0101_0101
      let digits = nibbles &+ 0x3030_3030_3030_3030 &+ letters &* 0x27
      unsafe output.storeBytes(of: digits.littleEndian, toByteOffset: index * 2, as: UInt64.self)
      index += 4
    }
    while index < count {
      let byte = unsafe bytes[index]
      unsafe destination[index * 2] = digit(byte >> 4)
      unsafe destination[index * 2 + 1] = digit(byte & 15)
      index += 1
    }
    return count * 2
  }

  private static func digit(_ value: UInt8) -> UInt8 { value < 10 ? 0x30 + value : 0x57 + value }
}

/// Decimal digits.
enum HTTP2Decimal {
  /// At most ten digits; returns their number.
  static func write(_ value: UInt32, into destination: UnsafeMutablePointer<UInt8>) -> Int {
    var digits = 1
    var rest = value
    while rest >= 10 {
      rest /= 10
      digits += 1
    }
    rest = value
    for index in (0..<digits).reversed() {
      unsafe destination[index] = 0x30 + UInt8(rest % 10)
      rest /= 10
    }
    return digits
  }
}

/// Which of a connection's expirations are indexed (HTTP2ProviderAPI.md, section 1).
///
/// The first one is, so that later ones do not repeat the field's name. Of the others, one that two
/// requests in a row have is: many notifications often expire at the same time, and then each needs
/// one byte instead of twelve.
struct HTTP2Expirations {
  private var last: UInt32?
  private var indexed: UInt32?

  mutating func isIndexed(_ expiration: UInt32) -> Bool {
    defer { last = expiration }
    guard indexed == nil || expiration == indexed || expiration == last else { return false }
    indexed = expiration
    return true
  }
}
