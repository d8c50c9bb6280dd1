internal import COpenSSL

/// The fields of a certificate, read from OpenSSL's structures.
struct CertificateFields {
  private let certificate: X509Handle

  init(_ certificate: X509Handle) { self.certificate = certificate }

  var subject: String { unsafe describe(X509_get_subject_name(certificate.pointer)) }
  var issuer: String { unsafe describe(X509_get_issuer_name(certificate.pointer)) }

  /// The first and last second of validity, since 1970. A malformed date counts as 1970, so the
  /// certificate counts as expired.
  var validity: ClosedRange<Int64> {
    let start = unsafe CivilTime.unixSeconds(X509_get0_notBefore(certificate.pointer)) ?? 0
    let end = unsafe CivilTime.unixSeconds(X509_get0_notAfter(certificate.pointer)) ?? 0
    return start...max(start, end)
  }

  /// The serial number in lower-case hexadecimal.
  var serial: String {
    guard let number = unsafe ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate.pointer), nil) else { return "" }
    defer { unsafe BN_free(number) }
    guard let text = unsafe BN_bn2hex(number) else { return "" }
    defer { unsafe CRYPTO_free(text, nil, 0) }
    return unsafe String(cString: text).lowercased()
  }

  /// The SHA-256 of the DER form.
  var sha256: [UInt8] { Digest.sha256(certificate.der) }

  /// The first UID (0.9.2342.19200300.100.1.1) of the subject.
  var userIdentifier: String? { subjectEntry(NID_userId) }
  var commonName: String? { subjectEntry(NID_commonName) }

  /// For example `RSA 2048` or `EC prime256v1`.
  var keyType: String {
    guard let key = unsafe X509_get0_pubkey(certificate.pointer) else {
      OpenSSLErrors.clear()
      return "unknown"
    }
    switch unsafe EVP_PKEY_get_base_id(key) {
    case EVP_PKEY_RSA: return unsafe "RSA \(EVP_PKEY_get_bits(key))"
    case EVP_PKEY_EC:
      var name = [CChar](repeating: 0, count: 64)
      var count = 0
      guard unsafe EVP_PKEY_get_group_name(key, &name, name.count, &count) == 1 else { return "EC" }
      return "EC " + String(decoding: name.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    default: return unsafe EVP_PKEY_get0_type_name(key).map { unsafe String(cString: $0) } ?? "unknown"
    }
  }

  var hasAlternativeNames: Bool { unsafe X509_get_ext_by_NID(certificate.pointer, NID_subject_alt_name, -1) >= 0 }

  /// The names of a server certificate: DNS names and IP addresses of subjectAltName. The common
  /// name is not used.
  var serverNames: [String] {
    guard let names = unsafe X509_get_ext_d2i(certificate.pointer, NID_subject_alt_name, nil, nil) else { return [] }
    let list = OpaquePointer(names)
    defer { unsafe GENERAL_NAMES_free(list) }
    var found: [String] = []
    for index in 0..<(unsafe carillon_names_count(list)) {
      guard let name = unsafe carillon_names_at(list, index) else { continue }
      switch unsafe name.pointee.type {
      case GEN_DNS: unsafe found.append(String(decoding: bytes(of: name.pointee.d.dNSName), as: UTF8.self))
      case GEN_IPADD: unsafe found.append(Self.describeAddress(bytes(of: name.pointee.d.iPAddress)))
      default: break
      }
    }
    return found
  }

  /// The content of the extension with this dotted object identifier; nil if there is none.
  func extensionBytes(_ identifier: String) -> [UInt8]? {
    guard let object = unsafe OBJ_txt2obj(identifier, 1) else { return nil }
    defer { unsafe ASN1_OBJECT_free(object) }
    let index = unsafe X509_get_ext_by_OBJ(certificate.pointer, object, -1)
    guard index >= 0, let data = unsafe X509_EXTENSION_get_data(X509_get_ext(certificate.pointer, index)) else {
      return nil
    }
    return unsafe bytes(of: data)
  }

  private func subjectEntry(_ identifier: Int32) -> String? {
    guard let name = unsafe X509_get_subject_name(certificate.pointer) else { return nil }
    let index = unsafe X509_NAME_get_index_by_NID(name, identifier, -1)
    guard index >= 0, let data = unsafe X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, index)) else { return nil }
    var text: UnsafeMutablePointer<UInt8>?
    let count = unsafe ASN1_STRING_to_UTF8(&text, data)
    guard count >= 0, let text = unsafe text else {
      OpenSSLErrors.clear()
      return nil
    }
    defer { unsafe CRYPTO_free(text, nil, 0) }
    return unsafe String(decoding: UnsafeBufferPointer(start: text, count: Int(count)), as: UTF8.self)
  }

  private func describe(_ name: OpaquePointer?) -> String {
    let text = unsafe bytesWritten { unsafe X509_NAME_print_ex($0, name, 0, carillon_name_format) >= 0 }
    return String(decoding: text ?? [], as: UTF8.self)
  }

  private func bytes(of string: UnsafePointer<ASN1_STRING>?) -> [UInt8] {
    guard let string = unsafe string, let start = unsafe carillon_string_bytes(string) else { return [] }
    return unsafe Array(UnsafeBufferPointer(start: start, count: Int(ASN1_STRING_length(string))))
  }

  private static func describeAddress(_ bytes: [UInt8]) -> String {
    if bytes.count == 4 { return bytes.map { String($0) }.joined(separator: ".") }
    guard bytes.count == 16 else { return Digest.hexadecimal(bytes) }
    if bytes.dropLast().allSatisfy({ $0 == 0 }) { return "::" + (bytes[15] == 0 ? "" : String(bytes[15], radix: 16)) }
    return stride(from: 0, to: 16, by: 2).map { String(UInt16(bytes[$0]) << 8 | UInt16(bytes[$0 + 1]), radix: 16) }
      .joined(separator: ":")
  }
}
