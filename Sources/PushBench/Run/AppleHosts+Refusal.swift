internal import Carillon
internal import Foundation
internal import PushTransport

/// Recognises Apple's hosts, so that no load test can be directed at them.
///
/// A name of Apple's is refused, and so is any name or address that resolves to Apple's networks.
/// An alias in a hosts file or in DNS does not help. Apple's documents name 17.0.0.0/8 and the IPv6
/// networks below for its push service.
extension AppleHosts {
  /// Why `host` cannot be a benchmark's target; nil if it can.
  ///
  /// - Parameter addresses: Resolves a name to numeric addresses. Not called when the host's own
  ///   text decides.
  package static func refusal(of host: String, addresses: (String) -> [String] = HostAddresses.resolve) -> String? {
    if isAppleName(host) { return sentence(host, "is Apple's") }
    if isAppleAddress(host) { return sentence(host, "is in Apple's network") }
    guard let address = addresses(host).first(where: isAppleAddress) else { return nil }
    return sentence(host, "leads to \(address), which is in Apple's network")
  }

  private static func sentence(_ host: String, _ fact: String) -> String {
    "\(host) \(fact). Apple treats load tests of its push service as abuse, and may close the account. Use the "
      + "built-in simulator or a gateway of your own."
  }

  /// Whether a numeric address is in one of Apple's networks. IPv4 addresses mapped into IPv6 count
  /// too.
  package static func isAppleAddress(_ text: String) -> Bool {
    var four = in_addr()
    if unsafe inet_pton(AF_INET, text, &four) == 1 { return UInt32(bigEndian: four.s_addr) >> 24 == 17 }
    var six = in6_addr()
    // The part after a % is the name of an interface.
    guard unsafe inet_pton(AF_INET6, String(text.prefix { $0 != "%" }), &six) == 1 else { return false }
    let bytes = unsafe withUnsafeBytes(of: &six) { unsafe Array($0) }
    let isMapped = bytes[..<10].allSatisfy { $0 == 0 } && bytes[10] == 0xFF && bytes[11] == 0xFF
    if isMapped { return bytes[12] == 17 }
    return [[0x26, 0x20, 0x01, 0x49], [0x24, 0x03, 0x03, 0x00], [0x2A, 0x01, 0xB7, 0x40]].contains {
      Array(bytes[..<4]) == $0
    }
  }
}
