package import PushWire

extension FrameDigest {
  /// The digest of what makes two notifications the same: token, payload and expiration. Old
  /// clients lose the priority when they send again, and write 0 for an expiration that is absent.
  ///
  /// It is a part of a SHA-256, since a payload may have text of strangers in it.
  ///
  /// - Parameter scratch: memory that is used again.
  package init(
    token: UnsafeRawBufferPointer, payload: UnsafeRawBufferPointer, expiration: UInt32?, scratch: inout [UInt8]
  ) {
    scratch.removeAll(keepingCapacity: true)
    for shift in [24, 16, 8, 0] as [UInt32] { scratch.append(UInt8(truncatingIfNeeded: (expiration ?? 0) >> shift)) }
    scratch.append(UInt8(truncatingIfNeeded: token.count))
    unsafe scratch.append(contentsOf: token)
    unsafe scratch.append(contentsOf: payload)
    let digest = unsafe scratch.withUnsafeBytes { unsafe Digest.sha256($0) }
    self = unsafe digest.withUnsafeBytes { unsafe FrameDigest($0, at: 0) }
  }

  fileprivate init(_ bytes: UnsafeRawBufferPointer, at offset: Int) {
    self.init(
      high: unsafe UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self)),
      low: unsafe UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: offset + 8, as: UInt64.self)))
  }
}

extension [FrameDigest] {
  /// As ``bytes`` made them; what is left over is dropped.
  package init(bytes: [UInt8]) {
    self = unsafe bytes.withUnsafeBytes { view in
      (0..<view.count / FrameDigest.byteCount).map { unsafe FrameDigest(view, at: $0 * FrameDigest.byteCount) }
    }
  }

  package var bytes: [UInt8] {
    var result: [UInt8] = []
    result.reserveCapacity(count * FrameDigest.byteCount)
    for digest in self {
      for word in [digest.high, digest.low] {
        for shift in stride(from: 56, through: 0, by: -8) { result.append(UInt8(truncatingIfNeeded: word >> shift)) }
      }
    }
    return result
  }
}
