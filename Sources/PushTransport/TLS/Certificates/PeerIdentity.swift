package import PushWire

/// The identity of a client, from the certificate that it presented.
package struct PeerIdentity: Sendable, Hashable {
  package let subject: String
  /// The UID of the subject; in a provider certificate, its topic.
  package let userIdentifier: String?
  /// The CN of the subject.
  package let commonName: String?
  /// All topics of the certificate; see ``CertificateInspection/topics``.
  package let topics: [String]
  /// The environments of the certificate; empty if it names none.
  package let environments: Set<PushEnvironment>
  /// SHA-256 of the certificate, 32 bytes.
  package let certificateSHA256: [UInt8]
  /// Why no authority counts as the issuer of the certificate; nil: one does, and the dates are
  /// good, or a ``ClientCertificatePolicy/judge`` was not asked.
  package internal(set) var distrust: String?

  /// In lower-case hexadecimal.
  package var fingerprint: String { Digest.hexadecimal(certificateSHA256) }

  init(_ certificate: X509Handle) {
    let fields = CertificateFields(certificate)
    (subject, userIdentifier) = (fields.subject, fields.userIdentifier)
    (commonName, certificateSHA256) = (fields.commonName, fields.sha256)
    var environments: Set<PushEnvironment> = []
    if fields.extensionBytes(AppleExtension.sandbox) != nil { environments.insert(.sandbox) }
    if fields.extensionBytes(AppleExtension.production) != nil { environments.insert(.production) }
    self.environments = environments
    var topics = userIdentifier.map { [$0] } ?? []
    // A certificate may contain many thousands of topics.
    var known = Set(topics)
    for topic in AppleExtension.topics(fields.extensionBytes(AppleExtension.topics) ?? [])
    where known.insert(topic).inserted {
      topics.append(topic)
    }
    self.topics = topics
  }
}

/// Apple's extensions in provider certificates.
enum AppleExtension {
  static let sandbox = "1.2.840.113635.100.6.3.1"
  static let production = "1.2.840.113635.100.6.3.2"
  static let voipTopics = "1.2.840.113635.100.6.3.4"
  static let topics = "1.2.840.113635.100.6.3.6"

  private static let utf8StringTag: UInt8 = 0x0C
  private static let sequenceTag: UInt8 = 0x30

  /// The strings of a topics extension: a SEQUENCE of pairs of a UTF8String, the topic, and a
  /// SEQUENCE of UTF8Strings, its kind.
  ///
  /// Only strings directly in the outer sequence are topics. The first element of another form ends
  /// the list; the topics before it are returned.
  static func topics(_ der: [UInt8]) -> [String] {
    var outer = der[...]
    guard let (tag, contents) = takeElement(&outer), tag == sequenceTag else { return [] }
    var rest = contents
    var found: [String] = []
    while let (tag, value) = takeElement(&rest) {
      if tag == utf8StringTag { found.append(String(decoding: value, as: UTF8.self)) }
    }
    return found
  }

  /// Makes the content of a topics extension: the inverse of ``topics(_:)``.
  static func encode(topics: [String], kind: String) -> [UInt8] {
    element(
      sequenceTag,
      topics.flatMap {
        element(utf8StringTag, Array($0.utf8)) + element(sequenceTag, element(utf8StringTag, Array(kind.utf8)))
      })
  }

  private static func takeElement(_ bytes: inout ArraySlice<UInt8>) -> (tag: UInt8, value: ArraySlice<UInt8>)? {
    guard let tag = bytes.popFirst(), let first = bytes.popFirst() else { return nil }
    var count = Int(first)
    if first >= 0x80 {
      let lengthBytes = Int(first & 0x7F)
      guard (1...3).contains(lengthBytes), bytes.count >= lengthBytes else { return nil }
      count = bytes.prefix(lengthBytes).reduce(0) { $0 << 8 | Int($1) }
      bytes = bytes.dropFirst(lengthBytes)
    }
    guard bytes.count >= count else { return nil }
    let value = bytes.prefix(count)
    bytes = bytes.dropFirst(count)
    return (tag, value)
  }

  private static func element(_ tag: UInt8, _ value: [UInt8]) -> [UInt8] {
    let count = value.count
    if count < 0x80 { return [tag, UInt8(count)] + value }
    if count < 0x100 { return [tag, 0x81, UInt8(count)] + value }
    return [tag, 0x82, UInt8(truncatingIfNeeded: count >> 8), UInt8(truncatingIfNeeded: count)] + value
  }
}
