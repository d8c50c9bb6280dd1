internal import COpenSSL

/// Reads PEM files with any number of certificates and one private key, in any order.
enum PEMReading {
  static func looksLikePEM(_ bytes: [UInt8]) -> Bool { contains(bytes, "-----BEGIN ") }
  static func hasKey(_ bytes: [UInt8]) -> Bool { contains(bytes, "PRIVATE KEY-----") }

  /// All certificates of the file, in its order. A damaged one is an error.
  static func certificates(_ bytes: [UInt8], file: String) throws(CredentialError) -> [X509Handle] {
    OpenSSLErrors.clear()
    var found: [X509Handle] = []
    unsafe withMemoryBIO(reading: bytes) { bio in
      while let certificate = unsafe PEM_read_bio_X509(bio, nil, nil, nil) {
        unsafe found.append(X509Handle(taking: certificate))
      }
    }
    // The end of the file is an error too, which says that there is no further PEM block.
    if let error = OpenSSLErrors.first(), error.library != ERR_LIB_PEM || error.reason != PEM_R_NO_START_LINE {
      throw .unsupported(file: file, reason: "a certificate in it is damaged (\(OpenSSLErrors.take()))")
    }
    OpenSSLErrors.clear()
    return found
  }

  /// The file's private key.
  static func key(_ bytes: [UInt8], passphrase: [UInt8]?) throws(CredentialReadingError) -> KeyHandle {
    guard hasKey(bytes) else { throw .notFound }
    if passphrase != nil { try checkDerivations(bytes) }
    do throws(CredentialReadingError) {
      return try unsafe readKey(bytes, passphrase: passphrase, libraryContext: nil)
    } catch {
      // With an old encryption, the first try reports a wrong passphrase or an unknown algorithm.
      // The legacy algorithms decide.
      guard passphrase != nil, let legacy = LegacyProvider.shared,
        let key = try? unsafe readKey(bytes, passphrase: passphrase, libraryContext: legacy.libraryContext),
        let usable = key.inDefaultContext()
      else { throw error }
      return usable
    }
  }

  /// Checks every encrypted key in the file, because OpenSSL tries them in turn. Only PKCS#8 has a
  /// number of rounds; the older form hashes once.
  private static func checkDerivations(_ bytes: [UInt8]) throws(CredentialReadingError) {
    var rounds: [Int64] = []
    unsafe withMemoryBIO(reading: bytes) { bio in
      while let encrypted = unsafe PEM_read_bio_PKCS8(bio, nil, nil, nil) {
        rounds.append(unsafe carillon_signature_rounds(encrypted))
        unsafe X509_SIG_free(encrypted)
      }
    }
    OpenSSLErrors.clear()
    var budget = DerivationBudget()
    for rounds in rounds { try budget.spend(rounds) }
  }

  /// The state that OpenSSL's passphrase call-back uses.
  private struct Prompt {
    var passphrase: [UInt8]?
    var asked = false
  }

  private static func readKey(
    _ bytes: [UInt8], passphrase: [UInt8]?, libraryContext: OpaquePointer?
  ) throws(CredentialReadingError) -> KeyHandle {
    OpenSSLErrors.clear()
    var prompt = Prompt(passphrase: passphrase)
    let key: OpaquePointer? = unsafe withUnsafeMutablePointer(to: &prompt) { prompt in
      unsafe withMemoryBIO(reading: bytes) { bio in
        unsafe PEM_read_bio_PrivateKey_ex(
          bio, nil,
          { destination, capacity, _, prompt in
            guard let prompt = unsafe prompt?.assumingMemoryBound(to: Prompt.self), let destination = unsafe destination
            else { return -1 }
            unsafe prompt.pointee.asked = true
            guard let passphrase = unsafe prompt.pointee.passphrase, passphrase.count <= Int(capacity) else {
              return -1
            }
            for (offset, byte) in passphrase.enumerated() { unsafe destination[offset] = CChar(bitPattern: byte) }
            return Int32(passphrase.count)
          }, prompt, libraryContext, nil)
      } ?? nil
    }
    if let key = unsafe key {
      OpenSSLErrors.clear()
      return unsafe KeyHandle(taking: key)
    }
    let reason = OpenSSLErrors.take()
    guard prompt.asked else { throw .unusable(reason) }
    throw passphrase == nil ? .passphraseMissing : .wrongPassphrase
  }

  private static func contains(_ bytes: [UInt8], _ text: String) -> Bool {
    let wanted = Array(text.utf8)
    guard let first = wanted.first, bytes.count >= wanted.count else { return false }
    return bytes.indices.dropLast(wanted.count - 1).contains {
      bytes[$0] == first && bytes[$0..<($0 + wanted.count)].elementsEqual(wanted)
    }
  }
}

/// Why bytes give no key and no certificates.
enum CredentialReadingError: Error {
  /// PEM without a private key, or not PKCS#12.
  case notFound
  /// They are encrypted and there is no passphrase.
  case passphraseMissing
  case wrongPassphrase
  /// See ``DerivationBudget``.
  case derivationTooLong(rounds: Int64)
  case unusable(String)

  func about(_ file: String, passphraseFile: String?, isInMemory: Bool = false) -> CredentialError {
    switch self {
    case .notFound: .notRecognised(file: file)
    case .passphraseMissing: isInMemory ? .passphraseNotGiven(for: file) : .passphraseMissing(file: file)
    case .wrongPassphrase: .wrongPassphrase(file: file, passphraseFile: passphraseFile ?? "the passphrase file")
    case .derivationTooLong(let rounds): .derivationTooLong(file: file, rounds: rounds)
    case .unusable(let reason): .unsupported(file: file, reason: reason)
    }
  }
}
