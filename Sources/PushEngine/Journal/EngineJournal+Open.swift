package import PushJournal

/// How an ``EngineJournal`` is opened.
package struct EngineJournalOptions: Hashable, Sendable {
  package var sync = JournalSync.intervalDefault
  /// Skip damaged places and count what was lost there, instead of refusing to open.
  package var skipsDamage = false
  /// Bytes of records between two checkpoints. Default 16 MiB.
  package var checkpointByteCount = 16 << 20

  /// A known mistake that tests plant, to prove that the simulation finds it.
  package var plantedMistake: PlantedMistake?

  package enum PlantedMistake: Sendable, CaseIterable {
    /// A lane sends as soon as its intent is written, even if it is not durable.
    case intentsAreNotAwaited
    /// Notifications that may have arrived before a crash are resent without being counted as such.
    case doubtIsNotCounted
    /// The position in the audience covers the whole chunk when only its first part is taken in.
    case positionsRunAhead
    /// A checkpoint releases all earlier records, even those of unsettled notifications.
    case unsettledIsReleased
    /// A lane continues to send under an intent that a rewind has taken back.
    case rewindKeepsIntent
    /// A rewind also forgets what an earlier connection may have delivered. As long as the campaign
    /// continues, nothing that is sent shows this; the journal's own tests find it.
    case rewindClearsDoubt
    /// What is handed over is acknowledged before it is in the journal.
    case acknowledgedAtOnce
  }

  package init() {}
}

extension EngineJournal {
  /// Takes ownership of the directory, creates it if it does not exist, and reads what earlier
  /// processes left in it.
  package static func open(
    directory: String, options: EngineJournalOptions = EngineJournalOptions()
  ) throws(JournalProblem) -> (
    journal: EngineJournal, report: JournalReport
  ) {
    try open(options) { (options, record) throws(JournalError) in
      try Journal.open(directory: directory, options: options, record: record)
    }
  }

  /// The same over any files, for simulations, which call it step by step: see
  /// `Journal.open(_:options:runByHand:record:)` and ``run(now:)``.
  package static func open(
    _ files: any JournalFiles, options: EngineJournalOptions, runByHand: @escaping @Sendable () -> Void
  ) throws(JournalProblem) -> (journal: EngineJournal, report: JournalReport) {
    try open(options) { (options, record) throws(JournalError) in
      try Journal.open(files, options: options, runByHand: runByHand, record: record)
    }
  }

  /// Does what is due at `now`. Returns when the next work is due if nothing happens before; nil if
  /// never.
  package func run(now: Duration) -> Duration? { journal.run(now: now) }

  private typealias Record = (JournalPosition, UInt8, Span<UInt8>) -> Void

  private static func open(
    _ options: EngineJournalOptions,
    _ body: (JournalOptions, Record) throws(JournalError) -> (journal: Journal, recovery: JournalRecovery)
  ) throws(JournalProblem) -> (journal: EngineJournal, report: JournalReport) {
    var reading = JournalReading(plantedMistake: options.plantedMistake)
    var journalOptions = JournalOptions()
    (journalOptions.sync, journalOptions.skipsDamage) = (options.sync, options.skipsDamage)
    let opened: (journal: Journal, recovery: JournalRecovery)
    do throws(JournalError) {
      opened = try body(journalOptions) { reading.read($0, $1, $2) }
    } catch {
      throw JournalProblem(error)
    }
    if let problem = reading.problem {
      opened.journal.close { _ in }
      throw problem
    }
    let report = reading.finish(opened.recovery)
    return (
      EngineJournal(
        journal: opened.journal, contents: reading.contents, wasClosed: report.recordsAreClosed, options: options),
      report
    )
  }

  /// Whether the directory exists and contains a journal.
  package static func exists(directory: String) -> Bool {
    guard let names = try? PosixFiles(existing: directory).list() else { return false }
    return names.contains { SegmentName.number($0) != nil }
  }

  /// Reads a journal without owning or changing it.
  package static func inspect(directory: String) throws(JournalProblem) -> JournalReport {
    var reading = JournalReading()
    let recovery: JournalRecovery
    do throws(JournalError) {
      recovery = try Journal.inspect(directory: directory) { reading.read($0, $1, $2) }
    } catch { throw JournalProblem(error) }
    if let problem = reading.problem { throw problem }
    return reading.finish(recovery)
  }
}
