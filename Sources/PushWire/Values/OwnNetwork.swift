/// Addresses that nobody reaches through the Internet: of this machine, of private and link-local
/// networks, of several hosts at once, and reserved ones (RFC 6890, and the registries that it
/// began).
package enum OwnNetwork {
  /// - Parameter address: four or sixteen bytes.
  package static func contains(_ address: [UInt8]) -> Bool {
    if address.count == 4 { return four.contains { $0.covers(address) } }
    guard address.count == 16 else { return true }
    // An IPv4 address in another form leads to where that one does.
    for (prefix, offset) in embedding where prefix.covers(address) {
      return contains(Array(address[offset..<offset + 4]))
    }
    return six.contains { $0.covers(address) }
  }

  private struct Prefix {
    let bytes: [UInt8]
    let bitCount: Int

    init(_ bytes: [UInt8], _ bitCount: Int) { (self.bytes, self.bitCount) = (bytes, bitCount) }

    func covers(_ address: [UInt8]) -> Bool {
      (0..<bitCount).allSatisfy { bit in
        let (index, mask) = (bit / 8, UInt8(0x80) >> UInt8(bit % 8))
        let expected = index < bytes.count ? bytes[index] : 0
        return address[index] & mask == expected & mask
      }
    }
  }

  private static let four = [
    Prefix([0], 8), Prefix([10], 8), Prefix([100, 64], 10), Prefix([127], 8), Prefix([169, 254], 16),
    Prefix([172, 16], 12), Prefix([192, 0, 0], 24), Prefix([192, 0, 2], 24), Prefix([192, 88, 99], 24),
    Prefix([192, 168], 16), Prefix([198, 18], 15), Prefix([198, 51, 100], 24), Prefix([203, 0, 113], 24),
    Prefix([224], 4), Prefix([240], 4),
  ]

  /// With where the IPv4 address begins: mapped, compatible (which has `::` and `::1`), of
  /// translators (RFC 6052), and 6to4.
  private static let embedding = [
    (Prefix([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF], 96), 12), (Prefix([], 96), 12),
    (Prefix([0x00, 0x64, 0xFF, 0x9B], 96), 12), (Prefix([0x20, 0x02], 16), 2),
  ]

  private static let six = [
    Prefix([0x00, 0x64, 0xFF, 0x9B, 0x00, 0x01], 48), Prefix([0x01, 0x00], 64), Prefix([0x20, 0x01], 23),
    Prefix([0x20, 0x01, 0x0D, 0xB8], 32), Prefix([0xFC], 7), Prefix([0xFE, 0x80], 10), Prefix([0xFE, 0xC0], 10),
    Prefix([0xFF], 8),
  ]
}
