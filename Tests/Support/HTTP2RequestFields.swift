package import PushGateway

extension HTTP2Request {
  /// The first value of a field; nil if there is none. The name must be in lower case.
  package func value(of name: String) -> UnsafeRawBufferPointer? {
    for index in 0..<fieldCount where unsafe self.name(index).elementsEqual(name.utf8) { return unsafe value(index) }
    return nil
  }

  /// The same as text. Bytes that are not UTF-8 become U+FFFD.
  package func text(of name: String) -> String? {
    unsafe value(of: name).map { unsafe String(decoding: $0, as: UTF8.self) }
  }
}
