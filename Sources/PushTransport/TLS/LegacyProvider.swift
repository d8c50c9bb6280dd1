internal import COpenSSL

/// OpenSSL's legacy algorithms (RC2-40, single DES, …), loaded the first time somebody needs them and only into a library context of their own:
/// what is read there is carried over into the default context, so that TLS itself never sees them.
@safe final class LegacyProvider: @unchecked Sendable {
  // Sync: made once behind a lazy global, never changed and never freed; a library context may be used by all threads.
  let libraryContext: OpaquePointer

  /// Nil if this machine's OpenSSL comes without the legacy module.
  static let shared = LegacyProvider()

  private init?() {
    guard let context = unsafe OSSL_LIB_CTX_new() else { return nil }
    // The providers stay loaded as long as the context, that is, for good.
    guard unsafe OSSL_PROVIDER_load(context, "legacy") != nil, unsafe OSSL_PROVIDER_load(context, "default") != nil else {
      unsafe OSSL_LIB_CTX_free(context)
      OpenSSLErrors.clear()
      return nil
    }
    unsafe libraryContext = context
  }
}
