internal import Carillon
internal import Logging
internal import PushService
internal import PushStore
internal import PushTransport
internal import PushWire
internal import Synchronization

extension Daemon {
  /// Reads the configuration again: adds and removes apps, and replaces each proxy, and each
  /// credential whose files have changed. What cannot be read or used changes nothing.
  func reload(_ campaigns: CampaignRunner) async -> ReloadReport {
    var report = ReloadReport()
    func problem(_ what: String, _ why: String, app: String? = nil) {
      var metadata: Logger.Metadata = ["why": "\(why)"]
      if let app { metadata["app"] = "\(app)" }
      logger.error("\(what)", metadata: metadata)
      let subject = app.flatMap { why.hasPrefix("The app \"\($0)\"") ? nil : "App \($0): " } ?? ""
      report.problems.append("\(subject)\(why.asSentence)")
    }
    let changed: ServerConfiguration
    do throws(ConfigurationError) { changed = try ServerConfiguration.read(file: file) } catch {
      problem("the configuration stays as it was", "\(error)")
      events.note("configuration not read", reason: "\(error)")
      return report
    }
    credentialFiles.withLock { $0 = changed.credentialFiles }
    log.settings = changed.log
    do throws(CarillonError) { try replaceCertificate(changed.api.certificate) } catch {
      problem("the API keeps its certificate", error.message)
    }
    report.waiting = changed.waiting(besides: configuration)
    let new = Self.byID(changed)
    let old = tenants.withLock { $0 }
    report.removed = old.keys.filter { new[$0] == nil }.sorted()
    await remove(report.removed)
    let hasAdded = new.keys.contains { old[$0] == nil }
    let paused = hasAdded ? (try? await store.pausedApps()) ?? [:] : [:]
    for tenant in changed.tenants {
      do throws(CarillonError) {
        let isChanged = try await use(tenant, known: old[tenant.id], isPaused: paused[tenant.id] != nil)
        if old[tenant.id] == nil {
          report.added.append(tenant.id)
          if let defect = try deployment.app(tenant.id).credentialDefect {
            problem("the app begins suspended", "it begins suspended: \(defect)", app: tenant.id)
          }
        } else if isChanged {
          report.refreshed.append(tenant.id)
        }
        let waiting = tenants.withLock { $0[tenant.id] }.map { tenant.app.waiting(besides: $0.app) } ?? []
        if !waiting.isEmpty { report.waiting.append("app \(tenant.id): \(waiting.joined(separator: ", "))") }
      } catch {
        problem("the app stays as it was", error.message, app: tenant.id)
      }
    }
    // A new app may have notifications of an earlier process.
    _ = await deployment.resumeIntake(owned: carrier?.owned ?? [])
    campaigns.controller.signalAll()
    let inForce = tenants.withLock { $0 }
    description.note(inForce, retention: configuration.retention)
    let present = inForce.values.sorted { $0.id < $1.id }
    for (what, why) in bridge?.reload(changed, tenants: present) ?? [] { problem(what, why) }
    events.note(
      "configuration read again", reason: report.problems.isEmpty ? nil : report.problems.joined(separator: " "))
    if !report.waiting.isEmpty {
      logger.warning(
        "other settings count after the next start", metadata: ["keys": "\(report.waiting.joined(separator: "; "))"])
    }
    return report
  }

  /// Removals at a time: each may wait for what its app has in flight.
  private static let removalLimit = 256

  private func remove(_ apps: [String]) async {
    tenants.withLock { tenants in for id in apps { tenants[id] = nil } }
    await withTaskGroup(of: Void.self) { tasks in
      for (index, id) in apps.enumerated() {
        if index >= Self.removalLimit { await tasks.next() }
        tasks.addTask { [deployment] in try? await deployment.remove(id) }
      }
    }
    let left = deployment.leftByRemovedApps
    for id in apps {
      events.note("app removed", app: id)
      guard let count = left[id], count > 0 else { continue }
      logger.warning(
        "notifications stay in the journal until the app is added again",
        metadata: ["app": "\(id)", "count": "\(count)"])
    }
    metrics.remove(apps: apps)
  }

  /// - Returns: whether it has another credential or proxy.
  private func use(_ tenant: Tenant, known: Tenant?, isPaused: Bool) async throws(CarillonError) -> Bool {
    guard let known else {
      // Before a request can find the app: without its settings its queue would have no room.
      tenants.withLock { $0[tenant.id] = tenant }
      do throws(CarillonError) {
        let added = try deployment.add(tenant.app)
        if isPaused { added.pause() }
      } catch {
        tenants.withLock { $0[tenant.id] = nil }
        throw error
      }
      events.note("app added", app: tenant.id)
      return true
    }
    let isChanged = try await deployment.app(tenant.id).takeOver(tenant.app)
    var present = tenant
    present.app = known.app.adopting(tenant.app)
    tenants.withLock { $0[tenant.id] = present }
    return isChanged
  }

  private func replaceCertificate(_ files: CredentialFiles?) throws(CarillonError) {
    guard let certificate else { return }
    guard let files else { return logger.warning("the API keeps its certificate until the next start") }
    if try certificate.replace(files, at: clock.now.seconds) { logger.notice("the API has another certificate") }
  }
}
