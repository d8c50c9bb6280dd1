internal import Foundation
internal import PushTransport

extension AppConfiguration {
  /// The files that say who the app is and whom it trusts, its gateway and its proxy.
  package var credentialFiles: [String] {
    let files: [String?] =
      switch credential.settings {
      case .certificate(let files): [files.certificate, files.key, files.passphraseFile]
      case .tokenKey(let key): [key.file]
      case .certificateInMemory, .tokenKeyInMemory: []
      }
    return (files + [trustedAuthorities]).compactMap { $0 } + (proxy?.files ?? [])
  }

  /// A digest of the content of these files: it differs after every change.
  var credentialDigest: [UInt8] {
    var digests: [UInt8] = []
    for file in credentialFiles {
      guard let handle = FileHandle(forReadingAtPath: file) else { continue }
      defer { try? handle.close() }
      let content = try? handle.read(upToCount: Self.credentialByteLimit)
      digests += Digest.sha256(Array(content ?? Data()))
    }
    return Digest.sha256(digests)
  }

  /// A file above this is no credential.
  private static let credentialByteLimit = 4 << 20
}
