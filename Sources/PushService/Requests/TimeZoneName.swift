internal import Foundation
internal import Synchronization

/// Names of the IANA time zone database, such as `Europe/Berlin`.
package enum TimeZoneName {
  private static let byteCountLimit = 64
  /// Looking a zone up reads a file, and an import names the same few again and again. No more than
  /// the database has are ever known.
  private static let known = Mutex<Set<String>>(["UTC"])

  package static func isValid(_ name: String) -> Bool {
    guard name.utf8.count <= byteCountLimit else { return false }
    if known.withLock({ $0.contains(name) }) { return true }
    // Abbreviations and offsets from GMT are no zones that a device is in.
    guard name.contains("/"), name.utf8.allSatisfy(isPlain), !name.contains(".."), !name.hasPrefix("/"),
      TimeZone(identifier: name) != nil
    else { return false }
    known.withLock { _ = $0.insert(name) }
    return true
  }

  private static func isPlain(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"):
      true
    default: "/_+-".utf8.contains(byte)
    }
  }
}
