package import Carillon
internal import PushTransport
package import PushWire

/// Which app a bridge's client is.
package struct BridgeDirectory: Sendable {
  package enum Answer: Hashable, Sendable {
    /// - reason: a clause, such as `its certificate is pinned`.
    case app(String, reason: String)
    case refused(reason: String)
  }

  private struct Topic {
    var app: String
    var environment: PushEnvironment
  }

  /// Apps by the fingerprints of pinned certificates.
  private var pins: [String: String] = [:]
  private var topics: [String: [Topic]] = [:]

  /// - Parameters:
  ///   - unixSeconds: now.
  ///   - unreadable: called for each file of a certificate that is to be pinned and cannot be read.
  ///     Default: that is thrown.
  /// - Throws: two apps pin the same certificate, or a pin is none.
  package init(
    _ tenants: [Tenant], at unixSeconds: Int64,
    unreadable: (_ app: String, CarillonError) throws(CarillonError) -> Void = { (_, error) throws(CarillonError) in
      throw error
    }
  ) throws(CarillonError) {
    for tenant in tenants {
      let app = tenant.app
      for pin in tenant.bridgeClients {
        let fingerprint: String
        do throws(CarillonError) { fingerprint = try Self.fingerprint(pin, app: app.id, at: unixSeconds) } catch {
          guard error.code == .credential else { throw error }
          try unreadable(app.id, error)
          continue
        }
        if let other = pins.updateValue(app.id, forKey: fingerprint), other != app.id {
          throw CarillonError(
            .configuration, "The apps \"\(other)\" and \"\(app.id)\" pin the same certificate, \(pin).")
        }
      }
      if let topic = app.topic ?? Self.topic(of: app, at: unixSeconds) {
        topics[topic, default: []].append(Topic(app: app.id, environment: app.environment))
      }
    }
  }

  /// - Parameters:
  ///   - fingerprint: of the client's certificate: SHA-256, in lower-case hexadecimal.
  ///   - distrust: why no authority of the bridge has issued it; nil: one has.
  package func answer(
    fingerprint: String, topics named: [String], environments: Set<PushEnvironment>, distrust: String?
  ) -> Answer {
    if let app = pins[fingerprint] { return .app(app, reason: "its certificate is pinned") }
    let advice = "pin it with bridge: { clients: [sha256:\(fingerprint)] } of its app"
    if let distrust { return .refused(reason: "\(distrust); \(advice)") }
    guard !named.isEmpty else {
      return .refused(
        reason: "its certificate names no topic, neither as UID nor in Apple's topics extension; \(advice)")
    }
    for topic in named {
      guard let known = topics[topic] else { continue }
      let matching = known.filter { environments.contains($0.environment) }
      let candidates = matching.isEmpty ? known : matching
      guard candidates.count == 1 else {
        let apps = candidates.map(\.app).joined(separator: ", ")
        return .refused(reason: "its topic \(topic) is that of several apps (\(apps)); \(advice)")
      }
      return .app(candidates[0].app, reason: "its topic is \(topic)")
    }
    let shown = named.prefix(4).joined(separator: ", ")
    return .refused(reason: "no app has its topic (\(shown)); \(advice)")
  }

  private static let digestPrefix = "sha256:"

  package static func isDigest(_ pin: String) -> Bool { pin.hasPrefix(digestPrefix) }

  private static func fingerprint(_ pin: String, app: String, at unixSeconds: Int64) throws(CarillonError) -> String {
    if isDigest(pin) {
      let digits = pin.dropFirst(digestPrefix.count).filter { $0 != ":" }.lowercased()
      guard digits.count == 64, digits.allSatisfy(\.isHexDigit) else {
        throw CarillonError(
          .configuration, "The app \"\(app)\" pins \(pin), which is no SHA-256: that has 64 hexadecimal digits.")
      }
      return digits
    }
    do throws(CredentialError) {
      return try CredentialInspection.load(file: pin, at: unixSeconds).certificate.sha256
    } catch {
      throw CarillonError(.credential, "The app \"\(app)\" pins a certificate that cannot be used: \(error).")
    }
  }

  /// The topic of an app whose certificate decides about it.
  private static func topic(of app: AppConfiguration, at unixSeconds: Int64) -> String? {
    guard case .certificate(let files) = app.credential.settings else { return nil }
    let inspection = try? CredentialInspection.load(
      file: files.certificate, passphraseFile: files.passphraseFile, at: unixSeconds)
    return inspection?.certificate.topics.first
  }
}
