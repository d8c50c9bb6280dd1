package import PushWire

extension FrameDigest {
  /// The digest of what makes two notifications the same: token, payload and expiration. Old
  /// clients lose the priority when they send again, and write 0 for an expiration that is absent.
  ///
  /// It is a part of a SHA-256, since a payload may have text of strangers in it. The payload's
  /// digest stands for the payload: in a campaign, all frames share it, and beside a token of 32
  /// bytes it fits one block of SHA-256.
  package init(token: TokenBytes, payload: FrameDigest, expiration: UInt32?) {
    let byteCountLimit = 4 + 16 + 1 + TokenBytes.byteCountLimit
    self = unsafe withUnsafeTemporaryAllocation(byteCount: byteCountLimit, alignment: 8) { memory in
      unsafe memory.storeBytes(of: (expiration ?? 0).bigEndian, as: UInt32.self)
      unsafe memory.storeBytes(of: payload.high.bigEndian, toByteOffset: 4, as: UInt64.self)
      unsafe memory.storeBytes(of: payload.low.bigEndian, toByteOffset: 12, as: UInt64.self)
      unsafe memory.storeBytes(of: UInt8(truncatingIfNeeded: token.byteCount), toByteOffset: 20, as: UInt8.self)
      let end = unsafe 21 + token.copyBytes(into: UnsafeMutableRawBufferPointer(rebasing: memory[21...]))
      return unsafe FrameDigest(of: UnsafeRawBufferPointer(rebasing: memory[..<end]))
    }
  }

  /// The digest of a payload.
  package init(of bytes: UnsafeRawBufferPointer) {
    let (high, low) = unsafe Digest.shortSHA256(bytes)
    self.init(high: high, low: low)
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
    unsafe [UInt8](unsafeUninitializedCapacity: count * FrameDigest.byteCount) { memory, byteCount in
      let memory = UnsafeMutableRawBufferPointer(memory)
      for digest in self {
        unsafe memory.storeBytes(of: digest.high.bigEndian, toByteOffset: byteCount, as: UInt64.self)
        unsafe memory.storeBytes(of: digest.low.bigEndian, toByteOffset: byteCount + 8, as: UInt64.self)
        byteCount += FrameDigest.byteCount
      }
    }
  }
}
