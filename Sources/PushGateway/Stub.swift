/// Stands in until the codec's JSON scanner is merged.
enum JSONScanner {
  static func isObject(_ bytes: UnsafeRawBufferPointer) -> Bool { unsafe bytes.count >= 2 && bytes[0] == 0x7B && bytes[bytes.count - 1] == 0x7D }
}
