internal import CLZ4
internal import Support
internal import Testing

@testable internal import PushJournal

/// The bytes of a frame, beside those of the library's own frames.
@Suite struct FrameCompressorTests {
  /// As the library writes it, with a checksum of its own.
  private static func libraryFrame(_ content: [UInt8]) -> [UInt8] {
    var preferences = LZ4F_preferences_t()
    preferences.frameInfo.contentChecksumFlag = LZ4F_contentChecksumEnabled
    preferences.frameInfo.contentSize = 1
    preferences.frameInfo.blockSizeID = LZ4F_max64KB
    preferences.frameInfo.blockMode = LZ4F_blockIndependent
    let bound = unsafe LZ4F_compressFrameBound(content.count, &preferences)
    return unsafe [UInt8](unsafeUninitializedCapacity: bound) { frame, count in
      count = unsafe LZ4F_compressFrame(frame.baseAddress, bound, content, content.count, &preferences)
    }
  }

  @Test("a frame has the bytes that the library gives it, with its checksums")
  func sameBytes() {
    let seed = SeededGenerator.freshSeed()
    print("FrameCompressorTests: seed \(seed)")
    var random = SeededGenerator(seed: seed)
    let compressor = FrameCompressor()
    let sizes = Array(1...70) + [65_535, 65_536, 65_537, FrameFormat.contentByteCountLimit]
    for size in sizes + (0..<50).map({ _ in Int.random(in: 1...200_000, using: &random) }) {
      // From a text that compresses to one that does not.
      let last = UInt8.random(in: 0...255, using: &random)
      let content = (0..<size).map { _ in UInt8.random(in: 0...last, using: &random) }
      let frame = unsafe content.withUnsafeBytes { unsafe Array(compressor.frame($0)) }
      #expect(frame == Self.libraryFrame(content), "\(size) bytes up to \(last), seed \(seed)")
    }
  }
}
