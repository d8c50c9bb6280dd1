internal import Foundation
internal import PushTransport
internal import Support
internal import Testing

@testable internal import Carillon

@Suite struct FileFingerprintTests {
  private let file = URL.temporaryDirectory.appending(path: "carillon-fingerprint-\(UUID()).txt").path

  private func write(_ text: String) throws { try Data(text.utf8).write(to: URL(filePath: file)) }

  @Test("a file is the same as long as its size and its content are")
  func changes() throws {
    defer { try? FileManager.default.removeItem(atPath: file) }
    // More than one block.
    let text = String(repeating: "0123456789abcdef", count: 100_000)
    try write(text)
    let fingerprint = try FileFingerprint.read(file)
    let stored = try JSONDecoder().decode(FileFingerprint.self, from: JSONEncoder().encode(fingerprint))
    #expect(stored == fingerprint)
    #expect(try stored.difference(of: file) == nil)
    // Each has a key of its own, so none can be prepared.
    let other = try FileFingerprint.read(file)
    #expect(other != fingerprint)
    #expect(try other.difference(of: file) == nil)
    for place in [0, text.utf8.count / 2, text.utf8.count - 1] {
      var bytes = Array(text.utf8)
      bytes[place] ^= 1
      try Data(bytes).write(to: URL(filePath: file))
      #expect(try stored.difference(of: file) == "\(file) has changed since the campaign began: its content is another")
    }
    try write(text + "\n")
    #expect(
      try stored.difference(of: file) == "\(file) has changed since the campaign began: "
        + "it has \(text.utf8.count + 1) bytes, had \(text.utf8.count)")
  }

  @Test("what an earlier version wrote is compared by its SHA-256")
  func earlier() throws {
    defer { try? FileManager.default.removeItem(atPath: file) }
    try write("abc")
    let sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    let json = Data(#"{"byteCount":3,"sha256":"\#(sum)"}"#.utf8)
    let fingerprint = try JSONDecoder().decode(FileFingerprint.self, from: json)
    #expect(fingerprint == FileFingerprint(byteCount: 3, sha256: sum))
    #expect(try fingerprint.difference(of: file) == nil)
    try write("abd")
    #expect(try fingerprint.difference(of: file)?.hasSuffix("its content is another") == true)
  }

  @Test("an AES-GMAC is that of the standard, however its text is cut")
  func code() throws {
    // NIST's GCM, test case 1: a key and a nonce of zeros, and no text.
    let zeros = [UInt8](repeating: 0, count: 16)
    let empty = try #require(Digest.GMAC(key: zeros)?.finish())
    #expect(Digest.hexadecimal(empty) == "58e2fccefa7e3061367f1d57a4e7455a")
    let text = (0..<1_000).map { UInt8(truncatingIfNeeded: $0) }
    let codes = try [1_000, 999, 64, 17, 1].map { size in
      let code = try #require(Digest.GMAC(key: zeros))
      for start in stride(from: 0, to: text.count, by: size) {
        unsafe text[start..<min(start + size, text.count)].withUnsafeBytes { unsafe code.update($0) }
      }
      return try #require(code.finish())
    }
    #expect(Set(codes).count == 1)
    #expect(codes[0] != empty)
    #expect(Digest.GMAC(key: []) == nil)
  }
}
