internal import PushEngine

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
  ///   - sync: when the journal is safe from a loss of power. Default: within 10 ms.
  ///   - skipsDamage: open a journal that is damaged; what was lost there counts as unknown. Default
  ///     false: that is an error.
  public static func directory(
    _ path: String, sync: Sync = .interval(.milliseconds(10)), skipsDamage: Bool = false
  ) -> JournalSettings {
    var options = EngineJournalOptions()
    options.sync =
      switch sync {
      case .always: .always
      case .interval(let duration): .interval(duration)
      case .never: .never
      }
    options.skipsDamage = skipsDamage
    return JournalSettings(directory: path, options: options)
  }

  /// When the journal is safe from a loss of power. From the end of the process it always is.
  public enum Sync: Hashable, Sendable {
    /// At once: nothing is sent before.
    case always
    /// Within this time: nothing is sent before.
    case interval(Duration)
    /// When the system gets to it.
    case never
  }
}
