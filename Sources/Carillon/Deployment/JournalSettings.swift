internal import PushEngine
internal import PushJournal

/// Whether and where a deployment keeps a journal: what the next process must know if this one ends
/// unexpectedly.
///
/// With a journal, campaigns survive the end of the process, even `kill -9`:
/// ``Deployment/unfinishedCampaigns``. Only one process can own a directory at a time.
public struct JournalSettings: Hashable, Sendable {
  let directory: String?
  let options: EngineJournalOptions

  /// No journal: what is in flight when the process ends is forgotten.
  public static let none = JournalSettings(directory: nil, options: EngineJournalOptions())

  /// A journal in a directory.
  ///
  /// - Parameters:
  ///   - path: of the directory, which is made if it is not there.
  ///   - sync: when the journal is safe from a loss of power. Default: within 10 ms
  ///     (``Sync/default``).
  ///   - skipsDamage: open a journal that is damaged; what was lost there counts as unknown.
  ///     Default false: that is an error.
  public static func directory(_ path: String, sync: Sync = .default, skipsDamage: Bool = false) -> JournalSettings {
    var options = EngineJournalOptions()
    options.sync = sync.journal
    options.skipsDamage = skipsDamage
    return JournalSettings(directory: path, options: options)
  }

  /// When the journal is safe from a loss of power. From the end of the process it always is.
  public struct Sync: Hashable, Sendable {
    let journal: JournalSync

    /// At once: nothing is sent before.
    public static let always = Sync(journal: .always)
    /// Within this time: nothing is sent before.
    public static func interval(_ duration: Duration) -> Sync { Sync(journal: .interval(duration)) }
    /// When the operating system writes it to the disk.
    public static let never = Sync(journal: .never)
    /// Within 10 ms: nothing is sent before.
    public static let `default` = Sync(journal: .intervalDefault)
  }
}

extension JournalSettings {
  /// The journal that a configuration file describes; nil if it names no directory.
  package init?(_ configuration: JournalConfiguration) {
    guard let directory = configuration.directory else { return nil }
    var options = EngineJournalOptions()
    options.sync = configuration.engineSync
    self.init(directory: directory, options: options)
  }
}
