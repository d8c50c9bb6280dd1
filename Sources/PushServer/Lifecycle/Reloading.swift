internal import Carillon
internal import Logging
internal import PushService
internal import ServiceLifecycle
internal import UnixSignals

/// What became of reading the configuration again.
package struct ReloadReport: Hashable, Sendable {
  package var added: [String] = []
  package var removed: [String] = []
  /// Apps that have another credential or proxy: their connections are renewed.
  package var refreshed: [String] = []
  /// Changes that count after the next start: keys of the file, an app's behind `app news: `.
  package var waiting: [String] = []
  /// Sentences. A part with a problem stays as it was.
  package var problems: [String] = []
}

/// Reads the configuration again, one request after the other.
actor Reloading {
  private let manager: ServiceManager?
  private let files: @Sendable () -> [String]
  private let body: @Sendable () async -> ReloadReport
  /// As the files were when they were last read, whoever asked for it.
  private var watch: FileWatch
  private var isBusy = false
  private var waiting: [CheckedContinuation<Void, Never>] = []

  /// - Parameter files: the configuration and the credentials that it names.
  init(
    manager: ServiceManager?, files: @escaping @Sendable () -> [String],
    _ body: @escaping @Sendable () async -> ReloadReport
  ) {
    (self.manager, self.files, self.body) = (manager, files, body)
    watch = FileWatch(files())
  }

  /// Those that are others since they were last read.
  func changedFiles() -> [String] { watch.changes(files()) }

  @discardableResult
  func reload() async -> ReloadReport {
    if isBusy { await withCheckedContinuation { waiting.append($0) } }
    isBusy = true
    manager?.notify(.reloading)
    watch = FileWatch(files())
    let report = await body()
    manager?.notify(.ready, status: report.problems.isEmpty ? "Serving." : "Serving; \(report.problems[0])")
    if waiting.isEmpty { isBusy = false } else { waiting.removeFirst().resume() }
    return report
  }
}

/// Asks for a reload at each of the signals, and when a file has changed since the last one.
struct ReloadTriggers: Service {
  let reloading: Reloading
  let signals: [UnixSignal]
  let clock: any ServiceClock
  let logger: Logger

  private static let interval = Duration.seconds(2)

  func run() async throws {
    let signals = await UnixSignalsSequence(trapping: signals)
    await cancelWhenGracefulShutdown {
      await withDiscardingTaskGroup { tasks in
        tasks.addTask { for await _ in signals { await reloading.reload() } }
        while (try? await clock.sleep(for: Self.interval)) != nil {
          let changed = await reloading.changedFiles()
          guard !changed.isEmpty else { continue }
          logger.notice("files have changed", metadata: ["files": "\(changed.joined(separator: ", "))"])
          await reloading.reload()
        }
        tasks.cancelAll()
      }
    }
  }
}

extension ServerConfiguration {
  /// The keys of the file, without those of apps, that differ and count after the next start.
  func waiting(besides other: ServerConfiguration) -> [String] {
    var names: [String] = []
    func compare(_ name: String, _ value: (ServerConfiguration) -> some Equatable) {
      if value(self) != value(other) { names.append(name) }
    }
    compare("journal") { $0.journal }
    compare("api") { configuration in
      var api = configuration.api
      // Another certificate counts at once.
      api.certificate = nil
      return api
    }
    compare("admin") { $0.admin }
    compare("store") { $0.store.withoutCluster }
    compare("cluster") { $0.store.cluster }
    compare("shutdown") { $0.shutdown }
    compare("retention") { $0.retention }
    compare("bridge") { $0.bridge?.withoutFiles }
    return names
  }
}
