internal import Carillon
internal import NIOCore
internal import PushTransport
internal import Synchronization

/// The certificate of the control interface. It can be replaced while connections use the old one.
final class ServerCertificate: Sendable {
  private struct State {
    var context: TLSContext
    var inspection: CertificateInspection
    /// Connections of an event loop share the buffers of one call.
    var buffers: [ObjectIdentifier: LoopBuffers] = [:]
  }

  private let state: Mutex<State>

  /// - Parameter unixSeconds: now; the certificate must be valid at it.
  /// - Throws: ``CarillonError`` with the code `credential`.
  init(_ files: CredentialFiles, at unixSeconds: Int64) throws(CarillonError) {
    let (context, inspection) = try Self.read(files, at: unixSeconds)
    state = Mutex(State(context: context, inspection: inspection))
  }

  /// Reads the files again. A failure changes nothing.
  ///
  /// - Returns: whether the certificate is another one.
  func replace(_ files: CredentialFiles, at unixSeconds: Int64) throws(CarillonError) -> Bool {
    let (context, inspection) = try Self.read(files, at: unixSeconds)
    return state.withLock { state in
      guard state.inspection != inspection else { return false }
      (state.context, state.inspection) = (context, inspection)
      return true
    }
  }

  var context: TLSContext { state.withLock { $0.context } }
  var inspection: CertificateInspection { state.withLock { $0.inspection } }

  func buffers(of loop: any EventLoop) -> LoopBuffers {
    state.withLock { state in
      let key = ObjectIdentifier(loop)
      if let known = state.buffers[key] { return known }
      let new = LoopBuffers()
      state.buffers[key] = new
      return new
    }
  }

  static func read(
    _ files: CredentialFiles, at unixSeconds: Int64
  ) throws(CarillonError) -> (TLSContext, CertificateInspection) {
    do throws(CredentialError) {
      let credential = try Credential.load(files, validAt: unixSeconds)
      var configuration = TLSServerConfiguration(credential: credential, clients: .none)
      configuration.applicationProtocols = ["http/1.1"]
      configuration.sendsTickets = true
      configuration.isModern = true
      return (try TLSContext(server: configuration), credential.inspection)
    } catch {
      throw CarillonError(.credential, "The certificate of the API: \(error)")
    }
  }
}
