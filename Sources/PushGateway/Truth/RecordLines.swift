internal import PushTransport
internal import PushWire

/// Collects lines of JSON for the record: the part that both protocols share.
///
/// Missing values are null, tokens are hexadecimal, and payloads are their SHA-256.
struct RecordLines: ~Copyable {
  /// Lines are written when they reach this size. About three hundred lines then share the cost of
  /// one write.
  private static let blockByteCount = 64 << 10

  private let file: RecordFile
  private var bytes: [UInt8] = []
  private var lastPayload: [UInt8] = []
  private var lastDigest: [UInt8] = []

  private static let token = Array(",\"token\":".utf8)
  private static let payload = Array(",\"payload\":".utf8)
  private static let refused = Array(",\"refused\":".utf8)
  private static let null = Array("null".utf8)
  private static let end = Array("}\n".utf8)
  private static let digits = Array("0123456789abcdef".utf8)

  /// - Parameter lineByteCount: The size of the longest lines, about.
  init(file: RecordFile, lineByteCount: Int) {
    self.file = file
    bytes.reserveCapacity(Self.blockByteCount + lineByteCount)
  }

  /// Begins a line, or continues it.
  mutating func append(_ text: [UInt8]) { bytes += text }

  mutating func endLine() {
    bytes += Self.end
    if bytes.count >= Self.blockByteCount { flush() }
  }

  mutating func flush() {
    guard !bytes.isEmpty else { return }
    file.append(bytes)
    bytes.removeAll(keepingCapacity: true)
  }

  mutating func append(number: Int?) {
    guard let number else { return bytes += Self.null }
    bytes += String(number).utf8
  }

  mutating func append(token: UnsafeRawBufferPointer) {
    bytes += Self.token
    if token.count == 0 { bytes += Self.null } else { unsafe append(hexadecimal: token) }
  }

  /// The payload's digest. It is computed once while a connection's payloads are equal, as most
  /// are.
  mutating func append(payload: UnsafeRawBufferPointer) {
    bytes += Self.payload
    guard payload.count > 0 else { return bytes += Self.null }
    if unsafe !lastPayload.holdsSameBytes(as: payload) {
      lastPayload.removeAll(keepingCapacity: true)
      unsafe lastPayload.append(contentsOf: payload)
      lastDigest = unsafe Digest.sha256(payload)
    }
    unsafe lastDigest.withUnsafeBytes { unsafe append(hexadecimal: $0) }
  }

  mutating func append(refusedAs status: Int) {
    bytes += Self.refused
    append(number: status)
  }

  mutating func append(refusedAs reason: String) {
    bytes += Self.refused
    bytes += Array(JSONText.quoted(reason).utf8)
  }

  /// Appends a text as the client wrote it. Nearly all texts need no escapes and are copied.
  mutating func append(_ key: [UInt8], _ value: UnsafeRawBufferPointer?) {
    bytes += key
    guard let value = unsafe value else { return bytes += Self.null }
    let isPlain = unsafe value.allSatisfy {
      $0 >= 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\")
    }
    guard isPlain else { return unsafe bytes += Array(JSONText.quoted(Text.string(value)).utf8) }
    bytes.append(0x22)
    unsafe bytes.append(contentsOf: value)
    bytes.append(0x22)
  }

  mutating func append(_ key: [UInt8], _ identifier: APNSIdentifier) {
    bytes += key
    bytes.append(0x22)
    unsafe withUnsafeTemporaryAllocation(byteCount: APNSIdentifier.textByteCount, alignment: 1) { text in
      unsafe identifier.write(into: text)
      unsafe bytes.append(contentsOf: text)
    }
    bytes.append(0x22)
  }

  private mutating func append(hexadecimal source: UnsafeRawBufferPointer) {
    bytes.append(0x22)
    for index in 0..<source.count {
      let byte = unsafe source[index]
      bytes.append(Self.digits[Int(byte >> 4)])
      bytes.append(Self.digits[Int(byte & 15)])
    }
    bytes.append(0x22)
  }
}
