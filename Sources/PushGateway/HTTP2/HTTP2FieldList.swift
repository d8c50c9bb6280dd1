internal import CNGHTTP2
internal import PushTransport

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
    case identifier, status

    fileprivate var text: StaticString {
      switch self {
      case .identifier: "apns-id"
      case .status: ":status"
      }
    }
  }

  /// A field whose value nghttp2 copies when the response is submitted.
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
