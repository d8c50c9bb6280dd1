package import PushJournal

/// How an ``EngineJournal`` is opened.
package struct EngineJournalOptions: Hashable, Sendable {
  package var sync = JournalSync.intervalDefault
  /// Go on over damaged places, and count what was lost there, instead of refusing to open.
  package var skipsDamage = false
  /// Bytes of records between two checkpoints. Default 16 MiB.
  package var checkpointByteCount = 16 << 20

  /// A known mistake for the simulation to find, so that we know that it can. Only tests set it.
  package var plantedMistake: PlantedMistake?

  package enum PlantedMistake: Sendable, CaseIterable {
    /// A lane sends as soon as its intent is written, whether that is durable or not.
    case intentsAreNotAwaited
    /// What may have arrived before a crash is sent again as if it could not have.
    case doubtIsNotCounted
    /// The position in the audience is written for the whole chunk when its first part is taken in.
    case positionsRunAhead
    /// A checkpoint lets go of all that came before it, though some of that is not settled.
    case unsettledIsReleased
    /// A lane goes on sending under the intent that a rewind has taken back.
    case rewindKeepsIntent
    /// A rewind also forgets what an earlier connection may have delivered. Nothing that is sent shows
    /// this as long as the campaign goes on: the journal's own tests find it.
    case rewindClearsDoubt
  }

  package init() {}
}

extension EngineJournal {
  /// Takes the directory, which is made if it is not there, and reads what earlier processes have left in it.
  package static func open(
    directory: String, options: EngineJournalOptions = EngineJournalOptions()
  ) throws(JournalProblem) -> (
    journal: EngineJournal, report: JournalReport
  ) {
    try unsafe open(options) { (options, record) throws(JournalError) in
      try unsafe Journal.open(directory: directory, options: options, record: record)
    }
  }

  /// The same over any files, run by hand: see `Journal.open(_:options:runByHand:record:)` and ``run(now:)``. For simulations.
  package static func open(
    _ files: any JournalFiles, options: EngineJournalOptions, runByHand: @escaping @Sendable () -> Void
  ) throws(JournalProblem) -> (journal: EngineJournal, report: JournalReport) {
    try unsafe open(options) { (options, record) throws(JournalError) in
      try unsafe Journal.open(files, options: options, runByHand: runByHand, record: record)
    }
  }

  /// Does what is due at `now`. Returns when there will be something to do if nothing happens before; nil if never.
  package func run(now: Duration) -> Duration? { journal.run(now: now) }

  private typealias Record = (JournalPosition, UInt8, UnsafeRawBufferPointer) -> Void

  private static func open(
    _ options: EngineJournalOptions,
    _ body: (JournalOptions, Record) throws(JournalError) -> (journal: Journal, recovery: JournalRecovery)
  ) throws(JournalProblem) -> (journal: EngineJournal, report: JournalReport) {
    var reading = JournalReading(plantedMistake: options.plantedMistake)
    let opened: (journal: Journal, recovery: JournalRecovery)
    do throws(JournalError) {
      opened = try unsafe body(options.forJournal) { unsafe reading.read($0, $1, $2) }
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

  /// Whether the directory is there, and is a journal's.
  package static func exists(directory: String) -> Bool {
    guard let names = try? PosixFiles(existing: directory).list() else { return false }
    return names.contains { SegmentName.number($0) != nil }
  }

  /// Looks at a journal without owning or changing it.
  package static func inspect(directory: String) throws(JournalProblem) -> JournalReport {
    var reading = JournalReading()
    let recovery: JournalRecovery
    do throws(JournalError) {
      recovery = try unsafe Journal.inspect(directory: directory) { unsafe reading.read($0, $1, $2) }
    } catch {
      throw JournalProblem(error)
    }
    if let problem = reading.problem { throw problem }
    return reading.finish(recovery)
  }
}

extension EngineJournalOptions {
  fileprivate var forJournal: JournalOptions {
    var options = JournalOptions()
    options.sync = sync
    options.skipsDamage = skipsDamage
    return options
  }
}
