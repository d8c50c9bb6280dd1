internal import Carillon
internal import PushTransport

extension ServeCheck {
  /// Reads the bridge's certificate, the authorities of its clients and the pinned certificates.
  mutating func add(_ bridge: BridgeConfiguration, _ tenants: [Tenant], _ now: Int64) {
    let subject = "bridge"
    do throws(CarillonError) {
      let (_, certificate) = try Bridge.context(bridge, validAt: now) { _, _ in .unknown }
      let feedback = bridge.feedback.map { ", feedback on \($0)" } ?? ""
      addFact(
        subject,
        "\(bridge.listen)\(feedback), for \(certificate.serverNames.joined(separator: ", ")), "
          + "TLS \(bridge.minimumTLS.rawValue) or later")
      add(certificate, subject, now)
    } catch {
      addProblem(subject, error.message)
    }
    if bridge.minimumTLS < .tls12 {
      addWarning(subject, "it accepts old versions of TLS, which others can read and change")
    }
    if let authority = bridge.clientAuthority { add(authority: authority, subject, now) }
    addClients(bridge, tenants, now)
  }

  private mutating func add(authority file: String, _ subject: String, _ now: Int64) {
    do throws(CredentialError) {
      let authority = try CredentialInspection.load(file: file, at: now).certificate
      let end = CivilTime.describe(authority.validity.upperBound)
      if authority.validity.contains(now) {
        addFact(subject, "certificates that \(authority.subject) has issued are clients by their topic, until \(end)")
      } else {
        addWarning(subject, "the authority \(authority.subject) of client-ca is not valid: until \(end)")
      }
    } catch {
      addProblem(subject, "the authorities of clients cannot be used: \(error)")
    }
  }

  private mutating func addClients(_ bridge: BridgeConfiguration, _ tenants: [Tenant], _ now: Int64) {
    do throws(CarillonError) {
      _ = try BridgeDirectory(tenants, at: now) { app, error in
        addError("app \(app)", "a client of the bridge would be unknown: \(error.message)")
      }
    } catch {
      return addProblem("bridge", error.message)
    }
    for tenant in tenants where !tenant.bridgeClients.isEmpty {
      // The directory has read them all.
      let names = tenant.bridgeClients.map { pin in
        guard !BridgeDirectory.isDigest(pin),
          let certificate = try? CredentialInspection.load(file: pin, at: now).certificate
        else { return pin }
        let hasEnded = certificate.validity.upperBound < now
        let end = CivilTime.describe(certificate.validity.upperBound)
        return certificate.subject + (hasEnded ? " (ended \(end), accepted all the same)" : "")
      }
      addFact("app \(tenant.id)", "pinned clients of the bridge: \(names.joined(separator: "; "))")
    }
    if bridge.clientAuthority == nil, tenants.allSatisfy(\.bridgeClients.isEmpty) {
      addWarning(
        "bridge", "no client can connect: name authorities with client-ca, or pin certificates with clients of an app")
    }
  }
}
