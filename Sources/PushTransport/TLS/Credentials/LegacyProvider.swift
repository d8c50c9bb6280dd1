internal import COpenSSL

/// OpenSSL's legacy algorithms (RC2-40, single DES, …). They are loaded at their first use and into
/// a library context of their own. Keys read there are copied to the default context, so TLS never
/// uses these algorithms.
@safe final class LegacyProvider: @unchecked Sendable {
  // Sync: made once by a lazy global, never changed and never freed. All threads may use a library
  // context.
  let libraryContext: OpaquePointer

  /// Nil if this machine's OpenSSL has no legacy module.
  static let shared = LegacyProvider()

  private init?() {
    guard let context = unsafe OSSL_LIB_CTX_new() else { return nil }
    // The providers stay loaded as long as the context: for ever.
    guard unsafe OSSL_PROVIDER_load(context, "legacy") != nil, unsafe OSSL_PROVIDER_load(context, "default") != nil
    else {
      unsafe OSSL_LIB_CTX_free(context)
      OpenSSLErrors.clear()
      return nil
    }
    unsafe libraryContext = context
  }
}
