package import PushJournal

/// What one YAML file says about a deployment: its apps, and the journal they share. Names and
/// defaults are those of the file.
package struct DeploymentConfiguration: Hashable, Sendable {
  package var journal = JournalConfiguration()
  /// At least one, each with an `id` of its own, in the order of the file.
  package var apps: [AppConfiguration] = []

  package init() {}
}

/// Where everything is written down that the next process must know, if this one ends unexpectedly.
package struct JournalConfiguration: Hashable, Sendable {
  /// The kinds of ``JournalSync`` by their names in the file and in flags.
  package enum Sync: String, Hashable, Sendable, CaseIterable { case always, interval, never }

  /// Nil: none; `carillon send` then sends without a journal.
  package var directory: String?
  package var sync = Sync.interval
  /// Of ``Sync/interval``. Default 10 ms.
  package var interval = JournalSync.intervalDefaultDuration

  package init() {}

  package var engineSync: JournalSync {
    switch sync {
    case .always: .always
    case .interval: .interval(interval)
    case .never: .never
    }
  }
}
