internal import COpenSSL
internal import Glibc
package import NIOCore
internal import PushWire

/// One TLS connection without a socket: ciphertext in, ciphertext out, plaintext in, plaintext out.
///
/// One thread at a time uses it, in practice its connection's event loop. Ciphertext is written
/// straight into the caller's buffer.
@safe package final class TLSSession {
  /// How a session ended.
  package enum End: Hashable, Sendable {
    /// The peer sent close_notify and sends nothing more. This side may still send.
    case closeNotify
    /// Nothing can be sent or received. If there is an alert for the peer, it is in the output.
    case failed(TLSFailure)
  }

  /// The result of processing some ciphertext.
  package struct Progress: Hashable, Sendable {
    /// These bytes completed the handshake.
    package var becameEstablished = false
    package var end: End?
  }

  package private(set) var isEstablished = false
  package private(set) var end: End?
  /// close_notify has been sent. Nothing more can be written, but reading continues.
  package private(set) var isOutputClosed = false

  private let context: TLSContext
  private let ssl: OpaquePointer
  private let io: UnsafeMutablePointer<carillon_io>
  private let host: String?
  private var certificateRequested = false
  private var hasOfferedTicket = false
  private var hasTicketArrived = false
  private var distrust: String?
  /// What a ``ClientCertificatePolicy/judge`` was told about the client's certificate.
  private var judgedDistrust: String?

  /// The most plaintext of a record (RFC 8446, section 5.1).
  private static let recordByteCount = 16 * 1024
  /// More than any cipher of TLS 1.2 or 1.3 adds to a record: header, explicit IV, MAC or tag,
  /// padding.
  private static let recordOverhead = 96
  /// A larger spill buffer is freed after use.
  private static let spillByteCountKept = 16 * 1024

  /// - Parameter host: for a client, the name or IP address that the server's certificate must
  ///   contain. A name is also sent as SNI. Nil: any certificate.
  package init(_ context: TLSContext, host: String? = nil) throws(TLSFailure) {
    OpenSSLErrors.clear()
    guard let method = unsafe SessionBIO.method, let ssl = unsafe SSL_new(context.settings.pointer) else {
      throw .handshakeFailed("OpenSSL failed: \(OpenSSLErrors.take())")
    }
    guard let bio = unsafe BIO_new(method) else {
      unsafe SSL_free(ssl)
      throw .handshakeFailed("OpenSSL failed: \(OpenSSLErrors.take())")
    }
    unsafe io = .allocate(capacity: 1)
    unsafe io.initialize(to: carillon_io())
    unsafe BIO_set_data(bio, io)
    unsafe SSL_set_bio(ssl, bio, bio)
    unsafe self.ssl = ssl
    (self.context, self.host) = (context, host)
    unsafe SSL_set_ex_data(ssl, 0, Unmanaged.passUnretained(self).toOpaque())
    if context.isServer {
      unsafe SSL_set_accept_state(ssl)
    } else {
      unsafe SSL_set_connect_state(ssl)
      hasOfferedTicket = unsafe context.tickets.offer(to: ssl, host: host ?? "")
      if let host {
        let isAddress = unsafe X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1
        OpenSSLErrors.clear()
        if !isAddress {
          // A certificate's names are those of its subjectAltName only (RFC 9525, section 2.3).
          unsafe SSL_set_hostflags(
            ssl, UInt32(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT))
          guard unsafe SSL_set1_host(ssl, host) == 1, unsafe carillon_set_server_name(ssl, host) == 1 else {
            throw .handshakeFailed("\(host) is not a host name that TLS can use: \(OpenSSLErrors.take())")
          }
        }
      }
    }
  }

  deinit {
    unsafe SSL_free(ssl)
    unsafe free(io.pointee.spill)
    unsafe io.deallocate()
  }

  var isServer: Bool { context.isServer }

  /// The negotiated version; nil before the end of the handshake.
  package var version: TLSVersion? { isEstablished ? unsafe TLSVersion(rawValue: SSL_version(ssl)) : nil }

  /// The handshake used a ticket of an earlier session, without certificates.
  package var isResumed: Bool { unsafe isEstablished && SSL_session_reused(ssl) == 1 }

  /// The protocol that ALPN selected; nil if none was. A client that offered protocols always has
  /// one once it ``isEstablished``.
  package var applicationProtocol: String? {
    var name: UnsafePointer<UInt8>?
    var count: UInt32 = 0
    unsafe SSL_get0_alpn_selected(ssl, &name, &count)
    return unsafe name.map { unsafe String(decoding: UnsafeBufferPointer(start: $0, count: Int(count)), as: UTF8.self) }
  }

  /// The peer's identity; nil before the handshake and if it presented no certificate.
  package var peerIdentity: PeerIdentity? {
    guard let certificate = unsafe SSL_get1_peer_certificate(ssl) else { return nil }
    var identity = unsafe PeerIdentity(X509Handle(taking: certificate))
    identity.distrust = judgedDistrust
    return identity
  }

  /// The identity of a server's client, with the trust that it would have in a handshake of another
  /// context.
  func peerIdentity(trustedBy other: TLSContext) -> PeerIdentity? {
    guard let pointer = unsafe SSL_get1_peer_certificate(ssl) else { return nil }
    let certificate = unsafe X509Handle(taking: pointer)
    var identity = PeerIdentity(certificate)
    identity.distrust = distrust(of: certificate, by: other)
    return identity
  }

  private func distrust(of certificate: X509Handle, by other: TLSContext) -> String? {
    guard other.clients.trust != nil else { return Self.noAuthority }
    OpenSSLErrors.clear()
    guard let check = unsafe X509_STORE_CTX_new() else { return Self.notTrusted(OpenSSLErrors.take()) }
    defer { unsafe X509_STORE_CTX_free(check) }
    let authorities = unsafe SSL_CTX_get_cert_store(other.settings.pointer)
    // Without the client's own certificate, as the server's side of a session has the chain.
    guard unsafe X509_STORE_CTX_init(check, authorities, certificate.pointer, SSL_get_peer_cert_chain(ssl)) == 1,
      unsafe X509_STORE_CTX_set_default(check, "ssl_client") == 1
    else { return Self.notTrusted(OpenSSLErrors.take()) }
    return unsafe Self.distrust(verifying: check)
  }

  /// Starts the handshake with a client's first message. A server sends nothing yet.
  package func start(output: inout ByteBuffer) -> Progress {
    var progress = Progress()
    writingOutput(into: &output, byteCount: 1024) { continueHandshake(&progress) }
    return progress
  }

  /// Processes all of `ciphertext` and appends plaintext and ciphertext to the buffers. If the
  /// session ends in it, the buffers have everything from before the end.
  package func receive(
    _ ciphertext: UnsafeRawBufferPointer, plaintext: inout ByteBuffer, output: inout ByteBuffer
  ) -> Progress {
    var progress = Progress()
    guard end == nil, unsafe !ciphertext.isEmpty else { return progress }
    unsafe io.pointee.input = ciphertext.baseAddress?.assumingMemoryBound(to: UInt8.self)
    unsafe io.pointee.input_count = ciphertext.count
    defer {
      unsafe io.pointee.input = nil
      unsafe io.pointee.input_count = 0
    }
    writingOutput(into: &output, byteCount: isEstablished ? 0 : 4096) {
      if !isEstablished { continueHandshake(&progress) }
      if isEstablished, end == nil { readAll(ciphertextByteCount: ciphertext.count, into: &plaintext, &progress) }
    }
    return progress
  }

  /// Encrypts all of `plaintext` in as few records as possible. Only after the handshake and before
  /// the end.
  package func write(_ plaintext: UnsafeRawBufferPointer, output: inout ByteBuffer) throws(TLSFailure) {
    precondition(isEstablished, "written before the handshake was complete")
    if case .failed(let failure) = end { throw failure }
    guard !isOutputClosed else { throw .broken("written after close_notify") }
    guard plaintext.count > 0 else { return }
    OpenSSLErrors.clear()
    let records = plaintext.count / Self.recordByteCount + 1
    var result: Int32 = 0
    writingOutput(into: &output, byteCount: plaintext.count + records * Self.recordOverhead) {
      var written = 0
      result = unsafe SSL_write_ex(ssl, plaintext.baseAddress, plaintext.count, &written)
    }
    // The BIO takes all bytes, so a write either succeeds as a whole or ends the session.
    guard result == 1 else { throw fail() }
  }

  /// Sends close_notify once. Reading stays possible.
  package func closeOutput(_ output: inout ByteBuffer) {
    if case .failed = end { return }
    guard isEstablished, !isOutputClosed else { return }
    isOutputClosed = true
    OpenSSLErrors.clear()
    writingOutput(into: &output, byteCount: 64) { _ = unsafe SSL_shutdown(ssl) }
    OpenSSLErrors.clear()
  }

  // MARK: Steps

  private func continueHandshake(_ progress: inout Progress) {
    OpenSSLErrors.clear()
    let result = unsafe SSL_do_handshake(ssl)
    if result == 1 {
      if !context.isServer, !context.applicationProtocols.isEmpty,
        applicationProtocol.map(context.applicationProtocols.contains) != true
      {
        let offered = context.applicationProtocols.joined(separator: " or ")
        let failure = TLSFailure.handshakeFailed(
          "the server did not agree to \(offered) by ALPN: it does not speak that protocol on this port")
        end = .failed(failure)
        progress.end = end
        return
      }
      isEstablished = true
      progress.becameEstablished = true
    } else if unsafe SSL_get_error(ssl, result) != SSL_ERROR_WANT_READ {
      progress.end = .failed(fail())
    }
  }

  private func readAll(ciphertextByteCount: Int, into plaintext: inout ByteBuffer, _ progress: inout Progress) {
    // A record that was incomplete before may now be complete, so there may be one record more than
    // the ciphertext has.
    plaintext.reserveCapacity(minimumWritableBytes: ciphertextByteCount + Self.recordByteCount)
    OpenSSLErrors.clear()
    while true {
      var result: Int32 = 0
      unsafe plaintext.writeWithUnsafeMutableBytes(minimumWritableBytes: Self.recordByteCount) { space in
        var count = 0
        result = unsafe SSL_read_ex(ssl, space.baseAddress, space.count, &count)
        return result == 1 ? count : 0
      }
      if result == 1 { continue }
      switch unsafe SSL_get_error(ssl, result) {
      case SSL_ERROR_WANT_READ:
        // After a ticket, OpenSSL keeps its read buffer. On a connection that receives nothing
        // else, it would keep it for ever.
        if plaintext.readableBytes == 0 { _ = unsafe SSL_free_buffers(ssl) }
        return
      case SSL_ERROR_ZERO_RETURN:
        end = .closeNotify
        progress.end = end
      default: progress.end = .failed(fail())
      }
      return
    }
  }

  /// Whether the server has shown that it accepts the client's certificate: with TLS 1.2 by
  /// completing the handshake, with TLS 1.3 by a ticket, which it sends after verifying the
  /// certificate.
  private var isCredentialAccepted: Bool {
    guard isEstablished, !context.isServer else { return false }
    return unsafe hasTicketArrived || SSL_version(ssl) < TLS1_3_VERSION
  }

  private func fail() -> TLSFailure {
    let failure = TLSFailure.classify(
      isServer: context.isServer, isEstablished: isEstablished, isCredentialAccepted: isCredentialAccepted,
      certificateRequested: certificateRequested, distrust: isEstablished ? nil : distrust)
    end = .failed(failure)
    // A full handshake may succeed. If it fails, it says what is wrong with a certificate.
    if hasOfferedTicket { if isEstablished { context.tickets.forget() } else { context.tickets.giveUp() } }
    return failure
  }

  /// Lets OpenSSL write into the free space of `buffer`, at least `byteCount` bytes. What does not
  /// fit is appended afterwards.
  private func writingOutput(into buffer: inout ByteBuffer, byteCount: Int, _ body: () -> Void) {
    unsafe buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: byteCount) { space in
      unsafe io.pointee.output = space.baseAddress?.assumingMemoryBound(to: UInt8.self)
      unsafe io.pointee.output_capacity = space.baseAddress == nil ? 0 : space.count
      unsafe io.pointee.output_count = 0
      body()
      return unsafe io.pointee.output_count
    }
    unsafe io.pointee.output = nil
    unsafe io.pointee.output_capacity = 0
    unsafe io.pointee.output_count = 0
    guard unsafe io.pointee.spill_count > 0 else { return }
    unsafe buffer.writeBytes(UnsafeRawBufferPointer(start: io.pointee.spill, count: io.pointee.spill_count))
    unsafe io.pointee.spill_count = 0
    if unsafe io.pointee.spill_capacity > Self.spillByteCountKept {
      unsafe free(io.pointee.spill)
      unsafe io.pointee.spill = nil
      unsafe io.pointee.spill_capacity = 0
    }
  }
}

/// The kind of BIO that sessions use.
private enum SessionBIO {
  // Sync: made once, never changed, never freed.
  nonisolated(unsafe) static let method = unsafe carillon_io_method()
}

// MARK: Call-backs of OpenSSL

extension TLSSession {
  private static func session(_ ssl: OpaquePointer?) -> TLSSession? {
    guard let ssl = unsafe ssl, let data = unsafe SSL_get_ex_data(ssl, 0) else { return nil }
    return unsafe Unmanaged<TLSSession>.fromOpaque(data).takeUnretainedValue()
  }

  private static func session(verifying store: OpaquePointer?) -> TLSSession? {
    unsafe session(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()).map { OpaquePointer($0) })
  }

  /// Selects one of the protocols that a client offers.
  static func selectProtocol(
    _ ssl: OpaquePointer?, _ chosen: UnsafeMutablePointer<UnsafePointer<UInt8>?>?,
    _ chosenCount: UnsafeMutablePointer<UInt8>?, _ offered: UnsafePointer<UInt8>?, _ count: UInt32
  ) -> Int32 {
    guard let session = unsafe session(ssl), let chosen = unsafe chosen, let chosenCount = unsafe chosenCount,
      let name = unsafe session.context.selectProtocol(from: UnsafeBufferPointer(start: offered, count: Int(count)))
    else { return SSL_TLSEXT_ERR_ALERT_FATAL }
    unsafe chosen.pointee = name.baseAddress
    unsafe chosenCount.pointee = UInt8(name.count)
    return SSL_TLSEXT_ERR_OK
  }

  /// Returns 1, or 0 to end the handshake.
  static func certificateRequested(_ ssl: OpaquePointer?) -> Int32 {
    guard let ssl = unsafe ssl, let session = unsafe session(ssl) else { return 0 }
    session.certificateRequested = true
    return unsafe session.context.showCredential(on: ssl) ? 1 : 0
  }

  /// Returns 1 if the reference to `ticket` is taken over.
  static func ticketArrived(_ ssl: OpaquePointer?, _ ticket: OpaquePointer?) -> Int32 {
    guard let session = unsafe session(ssl), let ticket = unsafe ticket else { return 0 }
    session.hasTicketArrived = true
    return unsafe session.context.tickets.keep(ticket, host: session.host ?? "") ? 1 : 0
  }

  /// Runs OpenSSL's own check of chain, dates and name. A failure is kept as a sentence.
  static func verifyServer(_ store: OpaquePointer?) -> Int32 {
    if let session = unsafe session(verifying: store), let only = session.context.onlyCertificate {
      return unsafe verify(store, is: only, for: session)
    }
    let result = unsafe X509_verify_cert(store)
    guard result != 1, let session = unsafe session(verifying: store) else { return result }
    let error = unsafe X509_STORE_CTX_get_error(store)
    let reason = unsafe String(cString: X509_verify_cert_error_string(Int(error)))
    guard let leaf = unsafe copy(X509_STORE_CTX_get0_cert(store)) else {
      session.distrust = "the server's certificate is not trusted: \(reason)"
      return result
    }
    let fields = CertificateFields(leaf)
    switch error {
    case X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH:
      session.distrust = mismatch(fields, host: session.host ?? "this host")
    case X509_V_ERR_CERT_HAS_EXPIRED:
      let expired = unsafe copy(X509_STORE_CTX_get_current_cert(store)) ?? leaf
      let expiredFields = CertificateFields(expired)
      session.distrust =
        "the server's certificate is not trusted: \(shown(expiredFields.subject)) expired on "
        + CivilTime.describe(expiredFields.validity.upperBound)
    default:
      session.distrust =
        "the server's certificate (\(shown(fields.subject)), issued by \(shown(fields.issuer))) "
        + "is not trusted: \(reason); name the CA file to trust if it is the right server"
    }
    return result
  }

  private static func verify(_ store: OpaquePointer?, is only: [UInt8], for session: TLSSession) -> Int32 {
    guard let leaf = unsafe copy(X509_STORE_CTX_get0_cert(store)), CertificateFields(leaf).sha256 == only else {
      unsafe X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_REJECTED)
      session.distrust = "the server's certificate is another one than the file that was named has"
      return 0
    }
    unsafe X509_STORE_CTX_set_error(store, X509_V_OK)
    return 1
  }

  private static func mismatch(_ fields: CertificateFields, host: String) -> String {
    guard fields.hasAlternativeNames else {
      let name = fields.commonName.map { "; its common name, \(shown($0)), does not count" } ?? ""
      return
        "the server's certificate has no subjectAltName, so it is valid for no host\(name); it needs one for \(host)"
    }
    let names = fields.serverNames
    guard !names.isEmpty else { return "the server's certificate is valid for no host, so not for \(host)" }
    let list = names.prefix(shownNameCount).map(shown).joined(separator: ", ")
    let more = names.count > shownNameCount ? " and \(names.count - shownNameCount) more" : ""
    return "the server's certificate is for \(list)\(more), not for \(host)"
  }

  /// The most names in one sentence.
  private static let shownNameCount = 8

  /// A name is the peer's own text and may have any length.
  private static func shown(_ name: String) -> String { name.escapedForTerminal(atMost: 256) }

  /// A server's check of a client's certificate: first its trust, if it has one, then its policy.
  static func verifyClient(_ store: OpaquePointer?) -> Int32 {
    guard let session = unsafe session(verifying: store) else { return 0 }
    let policy = session.context.clients
    if let judge = policy.judge { return unsafe session.judgeClient(store, judge, hasTrust: policy.trust != nil) }
    if policy.trust != nil {
      guard unsafe X509_verify_cert(store) == 1 else {
        let reason = unsafe String(cString: X509_verify_cert_error_string(Int(X509_STORE_CTX_get_error(store))))
        session.distrust = "the client's certificate is not trusted: \(reason)"
        return 0
      }
    }
    if let refuse = policy.refuse, let leaf = unsafe copy(X509_STORE_CTX_get0_cert(store)),
      let refusal = refuse(PeerIdentity(leaf))
    {
      unsafe X509_STORE_CTX_set_error(store, refusal.verifyError)
      session.distrust = "the server's policy refused the client's certificate"
      return 0
    }
    unsafe X509_STORE_CTX_set_error(store, X509_V_OK)
    return 1
  }

  private func judgeClient(
    _ store: OpaquePointer?, _ judge: (PeerIdentity, _ distrust: String?) -> ClientCertificatePolicy.Refusal?,
    hasTrust: Bool
  ) -> Int32 {
    // The check may put another certificate into its place.
    guard let leaf = unsafe Self.copy(X509_STORE_CTX_get0_cert(store)) else { return 0 }
    let distrust = unsafe hasTrust ? Self.distrust(verifying: store) : Self.noAuthority
    judgedDistrust = distrust
    if let refusal = judge(PeerIdentity(leaf), distrust) {
      unsafe X509_STORE_CTX_set_error(store, refusal.verifyError)
      self.distrust = "the server's policy refused the client's certificate"
      return 0
    }
    unsafe X509_STORE_CTX_set_error(store, X509_V_OK)
    return 1
  }

  private static let noAuthority = "no authority is configured for clients"

  private static func notTrusted(_ reason: String) -> String { "its certificate is not trusted: \(reason)" }

  /// Why a check of a client's certificate fails; nil: it succeeds.
  static func distrust(verifying check: OpaquePointer?) -> String? {
    defer { OpenSSLErrors.clear() }
    guard unsafe X509_verify_cert(check) != 1 else { return nil }
    let error = unsafe X509_STORE_CTX_get_error(check)
    return unsafe notTrusted(String(cString: X509_verify_cert_error_string(Int(error))))
  }

  private static func copy(_ certificate: OpaquePointer?) -> X509Handle? {
    guard let certificate = unsafe certificate, unsafe X509_up_ref(certificate) == 1 else { return nil }
    return unsafe X509Handle(taking: certificate)
  }
}

extension ClientCertificatePolicy.Refusal {
  /// The verification error that OpenSSL turns into this alert.
  fileprivate var verifyError: Int32 {
    switch self {
    case .bad: X509_V_ERR_CERT_REJECTED
    case .revoked: X509_V_ERR_CERT_REVOKED
    case .expired: X509_V_ERR_CERT_HAS_EXPIRED
    case .unknown: X509_V_ERR_PERMITTED_VIOLATION
    case .unknownAuthority: X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY
    }
  }
}
