/// What one YAML file says about a deployment: its apps, and the journal they share. Names and
/// defaults are those of the file.
package struct DeploymentConfiguration: Hashable, Sendable {
  package var journal = JournalConfiguration()
  /// At least one, each with an `id` of its own, in the order of the file.
  package var apps: [AppSettings] = []

  package init() {}
}

/// Where everything is written down that the next process must know, if this one ends unexpectedly.
package struct JournalConfiguration: Hashable, Sendable {
  package enum Sync: String, Hashable, Sendable, CaseIterable { case always, interval, never }

  /// Nil: none; `carillon send` then sends without a journal.
  package var directory: String?
  package var sync = Sync.interval
  package var interval = Duration.milliseconds(10)

  package init() {}
}
